# frugal_units(VARIABLE NAME): where FRUGAL_UNITY is on, puts files in the place of the C++ sources that
# VARIABLE lists, each of which includes several, so that headers are read once. CMake's own unity builds name
# the sources by absolute paths: a compiler cache does not know them again in another clone.
option(FRUGAL_UNITY "Compile several files as one" ON)

# Where a class that a header declares has members of a type that only its file knows, what only some
# presets compile (which files stand together is the same in all of them), what has options of its own, and what asks
# for specialisations that other files define: no unit may have these after it.
set(unity_alone kernels/cpu/gemm.cpp kernels/cuda/blas.cpp kernels/cuda/attention.cpp
  kernels/cuda/attention_none.cpp kernels/cpu/simd/normal.cpp kernels/cpu/simd/rotary.cpp kernels/cpu/simd/table.cpp
  kernels/table/operation_table.cpp)
list(TRANSFORM unity_alone PREPEND ${CMAKE_SOURCE_DIR}/)
set(FRUGAL_UNIT_FILES 32 CACHE STRING "At most so many files are compiled as one")

function(frugal_units variable name)
  if(NOT FRUGAL_UNITY)
    return()
  endif()
  set(together ${${variable}})
  list(FILTER together INCLUDE REGEX "\\.cpp$")
  list(REMOVE_ITEM together ${unity_alone})
  if(NOT together)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY frugal_units_targets ${name})
  set_property(GLOBAL PROPERTY frugal_units_of_${name} ${together})
  set(result ${${variable}})
  list(REMOVE_ITEM result ${together})
  list(LENGTH together count)
  math(EXPR last "${count} - 1")
  foreach(first RANGE 0 ${last} ${FRUGAL_UNIT_FILES})
    list(SUBLIST together ${first} ${FRUGAL_UNIT_FILES} files)
    string(REPLACE "${CMAKE_SOURCE_DIR}/" "" files "${files}")
    list(TRANSFORM files REPLACE "(.+)" "#include \"\\1\"\n")
    list(JOIN files "" text)
    set(unit ${CMAKE_BINARY_DIR}/units/${name}/${first}.cpp)
    file(CONFIGURE OUTPUT ${unit} CONTENT "${text}" @ONLY)
    list(APPEND result ${unit})
  endforeach()
  set(${variable} ${result} PARENT_SCOPE)
endfunction()
