# What `cmake --install` puts where: the program with its page and completions, data to begin from, and the
# layers below the papers as libraries for find_package(frugal). Nothing that is installed knows where: the tree may be
# moved. The target to_install builds all of it.
if(FRUGAL_SANITIZE)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(FRUGAL_ZSH_COMPLETIONS ${CMAKE_INSTALL_DATADIR}/zsh/site-functions CACHE STRING
  "Where zsh looks for completions, from the prefix")
add_custom_target(to_install ALL)

# The program finds libraries where it was linked with them; those of the system need no path.
set_target_properties(frugal PROPERTIES INSTALL_RPATH "${CUDAToolkit_LIBRARY_DIR}" INSTALL_RPATH_USE_LINK_PATH ON)
add_dependencies(to_install frugal)
install(TARGETS frugal RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)

# frugal_written(FILE ARGUMENTS…): a file that the program writes about itself.
function(frugal_written file)
  add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/written/${file} COMMAND frugal ${ARGN} > ${file}
                     WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/written DEPENDS frugal VERBATIM)
  target_sources(to_install PRIVATE ${CMAKE_BINARY_DIR}/written/${file})
endfunction()
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/written)
frugal_written(frugal.1 docs --man)
frugal_written(frugal.bash completion bash)
frugal_written(_frugal completion zsh)
frugal_written(frugal.fish completion fish)
set(written ${CMAKE_BINARY_DIR}/written)
install(FILES ${written}/frugal.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${written}/frugal.bash RENAME frugal COMPONENT program
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${written}/_frugal DESTINATION ${FRUGAL_ZSH_COMPLETIONS} COMPONENT program)
install(FILES ${written}/frugal.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)

# The program has these within it. They are here to be read and to begin own ones from.
set(data ${CMAKE_INSTALL_DATADIR}/frugal)
install(DIRECTORY hardware programs experiments DESTINATION ${data} COMPONENT program FILES_MATCHING PATTERN "*.json")
file(GLOB schemas CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/*.schema.json)
install(FILES ${schemas} DESTINATION ${data}/schemas COMPONENT program)
install(FILES CITATION.cff DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT texts)  # packages have their own

# frugal_public(NAME OBJECTS… USES LIBRARIES…): frugal::NAME, with all of the objects, as the program itself is linked:
# some are there only to register what they have.
function(frugal_public name)
  cmake_parse_arguments(PARSE_ARGV 1 public "" "" USES)
  list(TRANSFORM public_UNPARSED_ARGUMENTS REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
  add_library(frugal_${name}_archive STATIC ${objects})
  set_target_properties(frugal_${name}_archive PROPERTIES LINKER_LANGUAGE CXX EXPORT_NAME ${name}_archive
                        OUTPUT_NAME frugal_${name})
  target_link_libraries(frugal_${name}_archive INTERFACE ${public_USES})
  add_library(frugal::${name}_archive ALIAS frugal_${name}_archive)
  add_library(frugal_${name}_public INTERFACE)
  set_target_properties(frugal_${name}_public PROPERTIES EXPORT_NAME ${name})
  target_compile_features(frugal_${name}_public INTERFACE cxx_std_20)
  target_include_directories(frugal_${name}_public INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/frugal>)
  target_link_libraries(frugal_${name}_public INTERFACE $<LINK_LIBRARY:WHOLE_ARCHIVE,frugal::${name}_archive>)
  add_dependencies(to_install frugal_${name}_archive)
  install(TARGETS frugal_${name}_archive frugal_${name}_public EXPORT frugal
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
endfunction()
frugal_public(kernels frugal_kernels_objects ${simd_objects} frugal_cuda_objects
  USES ${cuda_libraries} Threads::Threads OpenMP::OpenMP_CXX Boost::context DNNL::dnnl fmt::fmt nlohmann_json::nlohmann_json)
frugal_public(engine frugal_engine_objects frugal_nccl_objects frugal_mpi_objects
  USES ${nccl_libraries} ${mpi_libraries} frugal_kernels_public)
frugal_public(harness frugal_harness_objects USES CLI11::CLI11 frugal_engine_public)

# All headers but what is inside a device or a way to communicate, of which others see a few.
set(include ${CMAKE_INSTALL_INCLUDEDIR}/frugal)
install(DIRECTORY kernels engine harness DESTINATION ${include} COMPONENT development FILES_MATCHING PATTERN "*.h"
        PATTERN kernels/cpu EXCLUDE PATTERN kernels/cuda EXCLUDE PATTERN engine/comm/nccl EXCLUDE
        PATTERN engine/schedule/kinds EXCLUDE)
install(FILES kernels/cpu/cores.h kernels/cpu/memory_budget.h
        DESTINATION ${include}/kernels/cpu COMPONENT development)
install(FILES kernels/cuda/gpus.h DESTINATION ${include}/kernels/cuda COMPONENT development)

set(config ${CMAKE_INSTALL_LIBDIR}/cmake/frugal)
install(EXPORT frugal NAMESPACE frugal:: FILE frugal-targets.cmake DESTINATION ${config} COMPONENT development)
configure_package_config_file(cmake/frugal-config.cmake.in ${CMAKE_BINARY_DIR}/frugal-config.cmake
                              INSTALL_DESTINATION ${config} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/frugal-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/frugal-config.cmake ${CMAKE_BINARY_DIR}/frugal-config-version.cmake
        cmake/FindNCCL.cmake cmake/FindCUDNN.cmake DESTINATION ${config} COMPONENT development)
