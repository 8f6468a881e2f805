# The page of `frugal report`: its own files, and the libraries that it embeds, which packages bring. Nothing is fetched.

# frugal_page_library(VARIABLE FILE PACKAGE FOLDER…): VARIABLE is where FILE is found.
function(frugal_page_library variable file package)
  find_file(${variable} ${file} PATHS ${ARGN} NO_DEFAULT_PATH DOC "${file}, which the page of frugal report embeds")
  if(NOT ${variable})
    message(FATAL_ERROR "${file} was not found, which the page of `frugal report` embeds. Install the Debian package "
                        "${package} (scripts/install.sh does), or say where the file is with -D${variable}=FILE.")
  endif()
endfunction()

frugal_page_library(FRUGAL_D3 d3.min.js node-d3 /usr/share/nodejs/d3/dist /usr/share/javascript/d3)
frugal_page_library(FRUGAL_JQUERY jquery.min.js libjs-jquery /usr/share/javascript/jquery)
frugal_page_library(FRUGAL_DATATABLES jquery.dataTables.min.js libjs-jquery-datatables
                    /usr/share/javascript/jquery-datatables)
frugal_embed_as(frugal_harness_objects page/d3.js ${FRUGAL_D3})
frugal_embed_as(frugal_harness_objects page/jquery.js ${FRUGAL_JQUERY})
frugal_embed_as(frugal_harness_objects page/datatables.js ${FRUGAL_DATATABLES})

file(GLOB page_files RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/harness/report/page/*)
frugal_embed(frugal_harness_objects ${page_files})
