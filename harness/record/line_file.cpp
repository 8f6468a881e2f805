#include "harness/record/line_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "kernels/support/error.h"
#include "kernels/support/json_file.h"
#include "kernels/support/paths.h"

namespace frugal::harness {
namespace {

namespace fs = std::filesystem;

/// Of a file that is not empty.
bool ends_a_line(const std::string& path, off_t size) {
  std::ifstream file(path, std::ios::binary);
  return file.seekg(size - 1) && file.get() == '\n';
}

}  // namespace

LineFile::LineFile(std::string flag, std::string path)
    : flag_(std::move(flag)), path_(std::move(path)) {
  const fs::path folder = fs::path(path_).parent_path();
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error) throw CannotWrite(flag_ + ": " + folder.string(), error.value());
  if (is_there(path_) && !fs::is_regular_file(path_))
    throw InputError(fmt::format("{} is not a file; choose another place", path_));
  file_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) cannot_write(errno);
  // A file system without locks is no reason to stop.
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(file_);
    throw InputError(fmt::format(
        "{}: another run of frugal writes {}; wait until it ends, or choose another place", flag_,
        path_));
  }
}

LineFile& LineFile::operator=(LineFile&& other) noexcept {
  std::swap(flag_, other.flag_);
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  return *this;
}

LineFile::~LineFile() {
  if (file_ >= 0) ::close(file_);
}

void LineFile::append(const std::string& text) {
  const std::string line = text + "\n";
  const off_t before = ::lseek(file_, 0, SEEK_END);
  if (before > 0 && !ends_a_line(path_, before)) {  // somebody else has cut it off
    drop_cut_line();
    return append(text);
  }
  for (size_t done = 0; done < line.size();) {
    const ssize_t written = ::write(file_, line.data() + done, line.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      (void)!::ftruncate(file_, before);  // a part of a line is no line
      cannot_write(error);
    }
    done += static_cast<size_t>(written);
  }
  if (::fsync(file_) != 0 && errno != EINVAL) cannot_write(errno);
}

void LineFile::shorten(size_t bytes) {
  if (::ftruncate(file_, static_cast<off_t>(bytes)) != 0) cannot_write(errno);
}

void LineFile::drop_cut_line() {
  const std::string text = read_text(path_);
  if (!text.empty() && text.back() != '\n') shorten(text.rfind('\n') + 1);  // npos + 1 is 0
}

void LineFile::cannot_write(int error) const { throw CannotWrite(flag_ + ": " + path_, error); }

}  // namespace frugal::harness
