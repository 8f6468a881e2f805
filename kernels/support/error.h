#pragma once
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace frugal::kernels {

/// Bad input from a user: one line that says what, where, what is allowed and what to do next.
/// The command line prints it and exits with status 2. What it quotes of the input may be anything:
/// ends of lines, and what else a terminal obeys, become question marks.
struct InputError : std::runtime_error {
  explicit InputError(const std::string& message) : std::runtime_error(one_line(message)) {}

 private:
  static std::string one_line(std::string text) {
    for (char& c : text)
      if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
    return text;
  }
};

/// A file that cannot be written: its place is full, read-only or gone (exit status 2).
struct CannotWrite : InputError {
  using InputError::InputError;
  /// `what` names the file, and the flag that chose it; `error` is an errno.
  CannotWrite(const std::string& what, int error)
      : InputError(what + " cannot be written (" + std::strerror(error) +
                   "); choose a place that can") {}
};

/// An allocation that did not fit the device (exit status 3). All sizes in bytes.
struct OutOfMemory : std::runtime_error {
  OutOfMemory(const std::string& what, int64_t requested, int64_t in_use, int64_t capacity)
      : std::runtime_error(what), requested(requested), in_use(in_use), capacity(capacity) {}
  int64_t requested, in_use, capacity;
  int64_t missing() const { return in_use + requested - capacity; }
};

/// A collective or message that did not end before its deadline (exit status 4).
struct DeadlinePassed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Another rank of the group failed, so that this one cannot go on (exit status 5).
struct PeerLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A computation produced a value that cannot be right, such as a loss that is not finite
/// (exit status 6).
struct WrongNumbers : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Thrown at a safe point after Ctrl-C or SIGTERM (exit status 130).
struct Interrupted : std::runtime_error {
  Interrupted()
      : std::runtime_error(
            "interrupted; what was recorded is kept, and the same command runs what was not") {}
};

}  // namespace frugal::kernels
