# Debian packages: frugal, the program, and libfrugal-dev, its libraries. scripts/package.sh makes them.
if(FRUGAL_SANITIZE)
  return()
endif()
set(FRUGAL_MAINTAINER "The frugal authors <authors@frugal.invalid>" CACHE STRING "Who answers for packages")

# What Debian wants to read, of both packages. The date is written as mail has it.
set(revision 1)
execute_process(COMMAND date --utc --rfc-email --date ${FRUGAL_RELEASED} OUTPUT_VARIABLE date
                OUTPUT_STRIP_TRAILING_WHITESPACE)
configure_file(packaging/debian/changelog.in ${CMAKE_BINARY_DIR}/debian/changelog.Debian @ONLY)
foreach(package IN ITEMS frugal libfrugal-dev)
  set(here DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT debian-${package} EXCLUDE_FROM_ALL)
  install(FILES packaging/debian/copyright ${CMAKE_BINARY_DIR}/debian/changelog.Debian ${here})
  install(FILES CHANGELOG.md RENAME changelog ${here})
endforeach()

# What is needed to compile with frugal's headers and to link with it, from packages.txt.
file(STRINGS packages.txt needed REGEX "^[a-z0-9-]+-dev")
list(FILTER needed EXCLUDE REGEX "gtest|gmock|benchmark|libomp")
list(TRANSFORM needed REPLACE " .*" "")
if(NOT FRUGAL_HAVE_MPI)
  list(REMOVE_ITEM needed libopenmpi-dev)
endif()
list(JOIN needed ", " needed)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT ${FRUGAL_MAINTAINER})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/Compress.cmake)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL program development debian-frugal debian-libfrugal-dev)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${revision})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME frugal)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS openmpi-bin)
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_NAME libfrugal-dev)
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_DEPENDS ${needed})

set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "benchmarks and paper replication for training in little memory")
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "frugal regenerates tables and figures of three papers on training large
transformers in little memory: on processors, on GPUs, and on described
machines, where memory is counted and a cost model advances the clock.
Every number that it prints says where it is from.")
set(CPACK_DEBIAN_LIBRARIES_DESCRIPTION "This package has frugal's devices, engine and harness as static libraries and
headers, for programs that use find_package(frugal).")

include(CPack)
cpack_add_component(program GROUP program)
cpack_add_component(debian-frugal GROUP program)
cpack_add_component(development GROUP libraries)
cpack_add_component(debian-libfrugal-dev GROUP libraries)
