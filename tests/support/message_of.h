#pragma once
#include <string>

namespace frugal::kernels {

/// Message of the Error that `body` throws, or that it threw none. Other errors pass.
template <class Error, class Body>
std::string message_of(Body body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

}  // namespace frugal::kernels
