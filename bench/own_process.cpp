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

constexpr const char *said = "said", *thrown = "thrown";

/// The number behind a key of /proc/self/status.
int64_t own_status(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1));
  return 0;
}

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
  nlohmann::json answer;
  try {
    answer[said] = work();
  } catch (const std::exception& error) {
    answer[thrown] = error.what();
  }
  write_all(to, answer.dump());
  ::_exit(0);  // without what the parent has registered for its own end
}

}  // namespace

nlohmann::json in_own_process(const std::function<nlohmann::json()>& work) {
  if (const int64_t threads = own_status("Threads"); threads != 1)
    throw std::logic_error(fmt::format("a process of {} threads makes no other", threads));
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
    throw std::runtime_error("the process that a case was given has not ended well");
  const nlohmann::json answer = nlohmann::json::parse(text);
  if (answer.contains(thrown))
    throw std::runtime_error("in its own process: " + answer[thrown].get<std::string>());
  return answer.at(said);
}

Resident resident() {
  constexpr int64_t kib = 1024;
  return {.now = kib * own_status("VmRSS"), .peak = kib * own_status("VmHWM")};
}

}  // namespace frugal::bench
