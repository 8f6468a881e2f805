# frugal_embed_as(TARGET NAME FILE): compiles a text file into the target. It is found under its name by
# frugal::kernels::embedded_file() (kernels/support/embedded.h).
function(frugal_embed_as target name file)
  string(MAKE_C_IDENTIFIER ${name} id)
  set(output ${CMAKE_BINARY_DIR}/embedded/${id}.cpp)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT
[[#include "kernels/support/embedded.h"
namespace {
const unsigned char @id@[] = {@bytes@0};
const frugal::kernels::EmbeddedFile @id@_file("@name@", reinterpret_cast<const char*>(@id@), sizeof(@id@) - 1);
}  // namespace
]])
  target_sources(${target} PRIVATE ${output})
endfunction()

# frugal_embed(TARGET FILE...): the same, each under its path from the root.
function(frugal_embed target)
  foreach(file IN LISTS ARGN)
    frugal_embed_as(${target} ${file} ${CMAKE_SOURCE_DIR}/${file})
  endforeach()
endfunction()
