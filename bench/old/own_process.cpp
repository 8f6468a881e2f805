#include "bench/own_process.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <stdexcept>
#include <string>

namespace frugal::bench {
namespace {

void write_all(int to, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(to, text.data() + done, text.size() - done);
    if (written <= 0) ::_exit(1);
    done += static_cast<size_t>(written);
  }
}

std::string read_all(int from) {
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t count = 0; (count = ::read(from, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<size_t>(count));
  return text;
}

[[noreturn]] void be_the_child(const std::function<nlohmann::json()>& work, int to) {
  int status = 1;
  try {
    write_all(to, work().dump());
    status = 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  ::_exit(status);  // without what the parent has registered for its own end
}

}  // namespace

nlohmann::json in_own_process(const std::function<nlohmann::json()>& work) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw std::runtime_error("no pipe to another process");
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("no further process");
  if (child == 0) {
    ::close(ends[0]);
    be_the_child(work, ends[1]);
  }
  ::close(ends[1]);
  const std::string text = read_all(ends[0]);
  ::close(ends[0]);
  int status = 0;
  if (::waitpid(child, &status, 0) != child || status != 0)
    throw std::runtime_error("the process that a case was given has failed");
  return nlohmann::json::parse(text);
}

Resident resident() {
  std::ifstream status("/proc/self/status");
  Resident found;
  for (std::string line; std::getline(status, line);) {
    const auto bytes = [&] { return 1024 * std::stoll(line.substr(line.find(':') + 1)); };
    if (line.starts_with("VmRSS:")) found.now = bytes();
    if (line.starts_with("VmHWM:")) found.peak = bytes();
  }
  return found;
}

}  // namespace frugal::bench
