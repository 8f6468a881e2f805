# Parts of the program that need what not every machine has.

# frugal_parts(PART…): a user may ask for each, or do without it, by FRUGAL_WITH_PART. FRUGAL_HAVE_PART is off so far.
function(frugal_parts)
  foreach(part IN LISTS ARGN)
    set(FRUGAL_WITH_${part} AUTO CACHE STRING "Build with ${part}: AUTO (where it is found), ON or OFF")
    set_property(CACHE FRUGAL_WITH_${part} PROPERTY STRINGS AUTO ON OFF)
    set(FRUGAL_HAVE_${part} OFF PARENT_SCOPE)
  endforeach()
endfunction()

# frugal_optional(PART WHAT CONDITION…): sets FRUGAL_HAVE_PART where the condition holds; fails where
# it does not and the user asked for the part.
macro(frugal_optional part what)
  if(${ARGN})
    set(FRUGAL_HAVE_${part} ON)
  elseif(FRUGAL_WITH_${part} STREQUAL ON)
    message(FATAL_ERROR "FRUGAL_WITH_${part} is ON and ${what} was not found; "
                        "install it or leave FRUGAL_WITH_${part} at AUTO")
  endif()
endmacro()
