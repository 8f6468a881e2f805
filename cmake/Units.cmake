# frugal_units(VARIABLE NAME): puts files in the place of the C++ sources that VARIABLE lists, each of
# which includes several of them, so that headers are read once. CMake's own unity builds name the
# sources by absolute paths: a compiler cache does not know them again in another clone.
option(FRUGAL_UNITY "Compile several files of a library as one" OFF)

# Where a class that a header declares has members of a type that only its file knows.
set(unity_alone kernels/cpu/gemm.cpp kernels/cuda/blas.cpp engine/comm/tasks.cpp)
list(TRANSFORM unity_alone PREPEND ${CMAKE_SOURCE_DIR}/)
set(unity_files 8)

function(frugal_units variable name)
  set(together ${${variable}})
  list(FILTER together INCLUDE REGEX "\\.cpp$")
  list(REMOVE_ITEM together ${unity_alone})
  set(result ${${variable}})
  list(REMOVE_ITEM result ${together})
  list(LENGTH together count)
  if(count EQUAL 0)
    return()
  endif()
  math(EXPR last "${count} - 1")
  foreach(first RANGE 0 ${last} ${unity_files})
    list(SUBLIST together ${first} ${unity_files} files)
    set(text "")
    foreach(file IN LISTS files)
      file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${file})
      string(APPEND text "#include \"${path}\"\n")
    endforeach()
    set(unit ${CMAKE_BINARY_DIR}/units/${name}_${first}.cpp)
    file(CONFIGURE OUTPUT ${unit} CONTENT "${text}" @ONLY)
    list(APPEND result ${unit})
  endforeach()
  set(${variable} ${result} PARENT_SCOPE)
endfunction()
