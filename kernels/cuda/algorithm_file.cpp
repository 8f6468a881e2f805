#include "kernels/cuda/algorithm_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>

namespace frugal::kernels::cuda {
namespace {

constexpr std::string_view title = "frugal matrix products 1 ";
constexpr size_t digits = 16;
constexpr uintmax_t most_bytes = most_products << 12;  // no line has 4 KB

/// FNV-1a, of 64 bits.
uint64_t checksum(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return hash;
}

/// Takes a number of 16 digits and what is behind it.
std::optional<uint64_t> take_number(std::string_view& text) {
  uint64_t number = 0;
  if (text.size() <= digits) return std::nullopt;
  const char* const end = text.data() + digits;
  if (std::from_chars(text.data(), end, number, 16).ptr != end) return std::nullopt;
  text.remove_prefix(digits + 1);
  return number;
}

/// "title checksum", and then what the checksum is of: the identity, and a line for each product.
std::string text_of(const std::string& identity, const AlgorithmFile::Algorithms& algorithms) {
  std::string body = identity + "\n";
  for (const auto& [problem, algorithm] : algorithms) {
    for (const uint64_t word : algorithm) body += fmt::format("{:016x} ", word);
    body += problem + "\n";
  }
  return fmt::format("{}{:016x}\n{}", title, checksum(body), body);
}

/// None where the text is not, byte by byte, what text_of() makes.
std::optional<AlgorithmFile::Algorithms> parse(const std::string& text,
                                               const std::string& identity) {
  AlgorithmFile::Algorithms algorithms;
  std::string_view left = text;
  const size_t header = title.size() + digits + 1 + identity.size() + 1;
  left.remove_prefix(std::min(header, left.size()));
  while (!left.empty()) {
    Algorithm algorithm{};
    for (uint64_t& word : algorithm) word = take_number(left).value_or(0);
    const size_t end = std::min(left.find('\n'), left.size());
    algorithms.emplace(left.substr(0, end), algorithm);
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  if (text_of(identity, algorithms) != text) return std::nullopt;
  return algorithms;
}

/// Keeps other processes, and other threads, from changing a file, while it exists. Whoever has it
/// needs a moment; one that is held longer is not waited for.
class Lock {
 public:
  explicit Lock(const std::string& path)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    constexpr int attempts = 100;
    for (int i = 0; file_ >= 0 && !held_ && i < attempts; ++i) {
      held_ = ::flock(file_, LOCK_EX | LOCK_NB) == 0;
      if (!held_) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() {
    if (file_ >= 0) ::close(file_);
  }
  bool held() const { return held_; }

 private:
  int file_;
  bool held_ = false;
};

/// Whether the file has this text now. Its folder has a temporary one meanwhile.
bool replace(const std::string& path, const std::string& text) {
  const std::string temporary = fmt::format("{}.{}", path, ::getpid());
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(temporary, path, error);
  if (out && !error) return true;
  std::filesystem::remove(temporary, error);
  return false;
}

std::string value_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string cache_folder() {
  if (std::getenv("FRUGAL_CACHE") != nullptr) return value_of("FRUGAL_CACHE");
  const std::string caches = value_of("XDG_CACHE_HOME"), home = value_of("HOME");
  if (!caches.empty()) return caches + "/frugal";
  return home.empty() ? "" : home + "/.cache/frugal";
}

AlgorithmFile::AlgorithmFile(const std::string& folder, std::string identity, size_t most)
    : path_(folder.empty() ? "" : fmt::format("{}/gemm-{:016x}.txt", folder, checksum(identity))),
      identity_(std::move(identity)),
      most_(most) {}

void AlgorithmFile::complain(const std::string& what) {
  if (!complained_) fmt::print(stderr, "frugal: {} {}\n", path_, what);
  complained_ = true;
}

AlgorithmFile::Algorithms AlgorithmFile::read() {
  std::error_code error;
  if (path_.empty() || !std::filesystem::exists(path_, error)) return {};
  std::string text;
  if (std::filesystem::file_size(path_, error) <= most_bytes && !error) {
    std::ifstream in(path_, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  if (auto algorithms = parse(text, identity_)) return *algorithms;
  complain("is not what this program has written, and ignored; the next product replaces it");
  return {};
}

/// Calls change(what the file has), alone of all processes, and writes it where that returns true.
void AlgorithmFile::change(const Change& change) {
  if (path_.empty() || given_up_) return;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  const Lock lock(path_ + ".lock");
  given_up_ = !lock.held();
  if (lock.held()) {
    Algorithms algorithms = read();
    if (!change(algorithms)) return;
    given_up_ = !replace(path_, text_of(identity_, algorithms));
  }
  if (given_up_)
    complain("cannot be written; choices are not kept (FRUGAL_CACHE names another folder)");
}

void AlgorithmFile::add(const std::string& problem, const Algorithm& algorithm) {
  change([&](Algorithms& all) {
    if (all.size() >= most_ && !all.contains(problem)) return false;
    all[problem] = algorithm;
    return true;
  });
}

Algorithm AlgorithmFile::add_first(const std::string& problem, const Algorithm& algorithm,
                                   const std::optional<Algorithm>& refused) {
  Algorithm first = algorithm;
  change([&](Algorithms& all) {
    const auto found = all.find(problem);
    if (found != all.end() && found->second != refused) {
      first = found->second;
      return false;
    }
    if (found == all.end() && all.size() >= most_) return false;
    all[problem] = algorithm;
    return true;
  });
  return first;
}

}  // namespace frugal::kernels::cuda
