// The C library's calls through which records and checkpoints come to the disk. Here they are a
// moment at which something goes wrong, and may fail.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "tests/faulty/fault.h"

namespace frugal::testing {
namespace {

std::atomic<int> file_error = 0;

/// The number of the call that is the moment: "call-17"; 0 where the moment is another, or another
/// process's.
int64_t call_of_moment() {
  constexpr std::string_view call = "call-";
  static const int64_t number = fault().moment.starts_with(call) &&
                                        (rank_of_process() < 0 || rank_of_process() == fault().rank)
                                    ? std::stoll(fault().moment.substr(call.size()))
                                    : 0;
  return number;
}

std::atomic<int64_t> calls = 0;

/// True if this call is the moment. At its end a process says how many there were.
bool is_moment() {
  if (call_of_moment() == 0) return false;
  if (++calls == 1) std::atexit([] { say("calls: " + std::to_string(calls)); });
  return calls == call_of_moment();
}

void happen_at_moment() {
  if (is_moment()) happen();
}

/// True if a call fails, and errno says why.
bool fails() {
  const int error = file_error;
  if (error == 0) return false;
  errno = error;
  return true;
}

/// A file, not a pipe or a connection.
bool is_file(int descriptor) {
  struct stat what {};
  return ::fstat(descriptor, &what) == 0 && S_ISREG(what.st_mode);
}

/// A new file has no place on a disk that cannot be written to, and has one on a full one.
bool fails_to_open() { return file_error == EROFS && fails(); }

}  // namespace

void fail_files(int error) { file_error = error; }

}  // namespace frugal::testing

// NOLINTBEGIN: names and parameters are the C library's
extern "C" {

int fsync(int file) {
  using namespace frugal::testing;
  static std::atomic<int> syncs = 0;
  const int rank = rank_of_process();
  if (fault().moment == "write" && (rank < 0 || rank == fault().rank) && ++syncs == 3) happen();
  happen_at_moment();
  return static_cast<int>(::syscall(SYS_fsync, file));
}

ssize_t write(int file, const void* bytes, size_t size) {
  using namespace frugal::testing;
  if (is_file(file)) {
    if (fails()) return -1;
    if (is_moment()) {  // a half of it is written by then
      ::syscall(SYS_write, file, bytes, size / 2);
      happen();
      bytes = static_cast<const char*>(bytes) + size / 2;
      return static_cast<ssize_t>(size / 2) + ::syscall(SYS_write, file, bytes, size - size / 2);
    }
  }
  return ::syscall(SYS_write, file, bytes, size);
}

ssize_t writev(int file, const struct iovec* parts, int count) {
  using namespace frugal::testing;
  if (is_file(file)) {
    if (fails()) return -1;
    happen_at_moment();
  }
  return ::syscall(SYS_writev, file, parts, count);
}

int mkdir(const char* path, mode_t mode) {
  frugal::testing::happen_at_moment();
  return frugal::testing::fails() ? -1 : static_cast<int>(::syscall(SYS_mkdir, path, mode));
}

int rename(const char* from, const char* to) {
  frugal::testing::happen_at_moment();
  return frugal::testing::fails() ? -1 : static_cast<int>(::syscall(SYS_rename, from, to));
}

int unlinkat(int folder, const char* path, int flags) {
  frugal::testing::happen_at_moment();
  return frugal::testing::fails() ? -1
                                  : static_cast<int>(::syscall(SYS_unlinkat, folder, path, flags));
}

FILE* fopen64(const char* path, const char* mode) {
  if (std::strpbrk(mode, "wa+") != nullptr) {
    frugal::testing::happen_at_moment();
    if (frugal::testing::fails_to_open()) return nullptr;
  }
  static const auto real = reinterpret_cast<decltype(&::fopen64)>(::dlsym(RTLD_NEXT, "fopen64"));
  return real(path, mode);
}

}  // extern "C"
// NOLINTEND
