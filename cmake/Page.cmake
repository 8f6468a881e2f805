# The page of `frugal report`: its own files, and the libraries that it embeds, which packages bring. Nothing is fetched.

set(FRUGAL_PAGE_LIBRARIES "" CACHE PATH "A folder of d3.min.js, jquery.min.js and jquery.dataTables.min.js; empty: those of Debian's packages")

# frugal_page_library(VARIABLE FILE PACKAGE FOLDER…): VARIABLE is where FILE is found, in FRUGAL_PAGE_LIBRARIES or in a
# FOLDER of a place where packages are.
function(frugal_page_library variable file package)
  set(places ${FRUGAL_PAGE_LIBRARIES})
  string(REPLACE ":" ";" given "$ENV{CMAKE_PREFIX_PATH}")
  foreach(prefix ${CMAKE_PREFIX_PATH} ${given} /usr)
    list(TRANSFORM ARGN PREPEND ${prefix}/ OUTPUT_VARIABLE folders)
    list(APPEND places ${folders})
  endforeach()
  find_file(${variable} ${file} PATHS ${places} NO_DEFAULT_PATH DOC "${file}, which the page of frugal report embeds")
  if(NOT ${variable})
    message(FATAL_ERROR "${file} was not found, which the page of `frugal report` embeds. Install the Debian package "
                        "${package} (scripts/install.sh does), or name a folder that has it with "
                        "-DFRUGAL_PAGE_LIBRARIES=FOLDER.")
  endif()
endfunction()

frugal_page_library(FRUGAL_D3 d3.min.js node-d3 share/nodejs/d3/dist share/javascript/d3)
frugal_page_library(FRUGAL_JQUERY jquery.min.js libjs-jquery share/javascript/jquery)
frugal_page_library(FRUGAL_DATATABLES jquery.dataTables.min.js libjs-jquery-datatables share/javascript/jquery-datatables)
frugal_embed_as(frugal_harness_objects page/d3.js ${FRUGAL_D3})
frugal_embed_as(frugal_harness_objects page/jquery.js ${FRUGAL_JQUERY})
frugal_embed_as(frugal_harness_objects page/datatables.js ${FRUGAL_DATATABLES})

file(GLOB page_files RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/harness/report/page/*)
frugal_embed(frugal_harness_objects ${page_files})
