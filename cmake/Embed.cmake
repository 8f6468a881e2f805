# frugal_embed(TARGET FILE...): compiles text files into the target. They are found under their
# path from the root by frugal::kernels::embedded_file() (kernels/support/embedded.h).
function(frugal_embed target)
  foreach(file IN LISTS ARGN)
    set(input ${CMAKE_SOURCE_DIR}/${file})
    string(MAKE_C_IDENTIFIER ${file} id)
    set(output ${CMAKE_BINARY_DIR}/embedded/${id}.cpp)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${input})
    file(READ ${input} bytes HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    file(CONFIGURE OUTPUT ${output} @ONLY CONTENT
[[#include "kernels/support/embedded.h"
namespace {
const unsigned char @id@[] = {@bytes@0};
const frugal::kernels::EmbeddedFile @id@_file("@file@", reinterpret_cast<const char*>(@id@), sizeof(@id@) - 1);
}  // namespace
]])
    target_sources(${target} PRIVATE ${output})
  endforeach()
endfunction()
