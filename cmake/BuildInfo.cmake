# Which commit a binary was built from, written anew with every build: a record names it.
# Run as a script (cmake -P) it writes the header; included, it makes a target that does so.
if(CMAKE_SCRIPT_MODE_FILE)
  set(commit "")
  set(dirty false)
  find_program(git git)
  if(git)
    set(ENV{GIT_OPTIONAL_LOCKS} 0)
    execute_process(COMMAND ${git} rev-parse HEAD WORKING_DIRECTORY ${SOURCE_DIR}
                    OUTPUT_VARIABLE commit RESULT_VARIABLE failed
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(failed)
      set(commit "")
    else()
      execute_process(COMMAND ${git} status --porcelain --untracked-files=no
                      WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE changes ERROR_QUIET)
      if(changes)
        set(dirty true)
      endif()
    endif()
  endif()
  file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT
[[#pragma once
namespace frugal::harness::build {
inline constexpr const char* commit = "@commit@";
inline constexpr bool dirty = @dirty@;
}  // namespace frugal::harness::build
]])
  return()
endif()

set(build_info ${CMAKE_BINARY_DIR}/build_info)
add_custom_target(frugal_build_info
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${CMAKE_SOURCE_DIR} -DOUTPUT=${build_info}/build_info.h
          -P ${CMAKE_CURRENT_LIST_FILE}
  BYPRODUCTS ${build_info}/build_info.h VERBATIM)
add_dependencies(frugal_harness_objects frugal_build_info)
target_include_directories(frugal_harness_objects PRIVATE ${build_info})
target_compile_definitions(frugal_harness_objects PRIVATE
  FRUGAL_BUILD_TYPE="${CMAKE_BUILD_TYPE}" FRUGAL_VERSION="${PROJECT_VERSION}" FRUGAL_RELEASED="${FRUGAL_RELEASED}"
  FRUGAL_DESCRIPTION="${PROJECT_DESCRIPTION}")
