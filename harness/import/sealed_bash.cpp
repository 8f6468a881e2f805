#include "harness/import/sealed_bash.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <vector>

#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t most_written = size_t{4} << 20, most_messages = size_t{1} << 20;
constexpr rlim_t most_memory = rlim_t{64} << 20;  // bytes, of each process
constexpr rlim_t most_processes = 64;             // beyond those that the user has
constexpr rlim_t most_seconds = 2;                // of a processor, for each process
constexpr rlim_t most_files = 64;                 // bash opens <(...) as 63
constexpr uint32_t nobody = 65534;
constexpr auto others_wait = std::chrono::seconds(1);  // for what bash leaves behind

#if defined(__x86_64__)
constexpr uint32_t architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t architecture = AUDIT_ARCH_AARCH64;
#else
#error "the filter knows the system calls of x86-64 and of 64-bit ARM"
#endif

/// Calls that touch nothing outside the process, its children and its open descriptors.
constexpr std::array harmless = {
    SYS_read, SYS_write, SYS_pread64, SYS_writev, SYS_lseek, SYS_fstat, SYS_dup, SYS_dup3,
    SYS_fcntl, SYS_pipe2, SYS_pselect6, SYS_ppoll, SYS_umask, SYS_getcwd,
    // Memory.
    SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_brk,
    // Processes and signals.
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack, SYS_clone, SYS_wait4,
    SYS_waitid, SYS_exit, SYS_exit_group, SYS_set_tid_address, SYS_set_robust_list, SYS_rseq,
    SYS_futex, SYS_getpid, SYS_getppid, SYS_gettid, SYS_getpgid, SYS_getuid, SYS_geteuid,
    SYS_getgid, SYS_getegid, SYS_getgroups, SYS_restart_syscall, SYS_execveat,
    // Time, limits and random numbers.
    SYS_getrandom, SYS_prlimit64, SYS_getrusage, SYS_times, SYS_gettimeofday, SYS_clock_gettime,
    SYS_clock_nanosleep, SYS_nanosleep, SYS_setitimer};
#ifdef SYS_open
constexpr std::array older = {SYS_dup2,    SYS_pipe,      SYS_select,    SYS_poll,
                              SYS_fork,    SYS_vfork,     SYS_alarm,     SYS_time,
                              SYS_getpgrp, SYS_getrlimit, SYS_arch_prctl};  // names of the same
#else
constexpr std::array<int, 0> older = {};
#endif

/// A seccomp filter, which looks at a call's number and the lower halves of its arguments.
class Filter {
 public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, architecture, 1, 0);
    leave(SECCOMP_RET_KILL);
    load(offsetof(seccomp_data, nr));
    for (const long call : harmless) rule(call, {}, SECCOMP_RET_ALLOW);
    for (const long call : older) rule(call, {}, SECCOMP_RET_ALLOW);
    opens(SYS_openat, 2);
#ifdef SYS_open
    opens(SYS_open, 1);
#endif
    // Descriptor 0 stands for all files that are written, and so stays open.
    when(SYS_close, 0,
         {statement(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1), result(error(0)),
          result(SECCOMP_RET_ALLOW)});
    when(SYS_newfstatat, 3,
         {statement(BPF_JMP | BPF_JSET | BPF_K, AT_EMPTY_PATH, 0, 1), result(SECCOMP_RET_ALLOW),
          result(error(ENOENT))});
    rule(SYS_execve, {}, error(ELIBEXEC));
    leave(error(ENOSYS));  // the C library tries an older call, or gives up
  }
  sock_fprog program() { return {static_cast<unsigned short>(code_.size()), code_.data()}; }

 private:
  using Code = std::vector<sock_filter>;

  static constexpr uint32_t error(uint32_t number) { return SECCOMP_RET_ERRNO | number; }
  static sock_filter statement(int code, uint32_t k, int yes = 0, int no = 0) {
    return {static_cast<uint16_t>(code), static_cast<uint8_t>(yes), static_cast<uint8_t>(no), k};
  }
  static sock_filter result(uint32_t action) { return statement(BPF_RET | BPF_K, action); }
  void add(int code, uint32_t k, int yes, int no) { code_.push_back(statement(code, k, yes, no)); }
  void leave(uint32_t action) { code_.push_back(result(action)); }
  void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset), 0, 0); }
  void rule(long call, const Code& checks, uint32_t action) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0,
        static_cast<int>(checks.size()) + 1);
    code_.insert(code_.end(), checks.begin(), checks.end());
    leave(action);
  }
  /// `checks` end with a result, whatever the argument is.
  void when(long call, int argument, Code checks) {
    const size_t offset = offsetof(seccomp_data, args) + sizeof(uint64_t) * argument;
    checks.insert(checks.begin(),
                  statement(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)));
    const uint32_t last = checks.back().k;
    checks.pop_back();
    rule(call, checks, last);
  }
  /// The loader and the C library open with O_CLOEXEC and no other flag; bash, for a script, never
  /// does. What is written goes to descriptor 0; what is read is not there.
  void opens(long call, int flags) {
    when(call, flags,
         {statement(BPF_ALU | BPF_AND | BPF_K, ~static_cast<uint32_t>(large_file)),
          statement(BPF_JMP | BPF_JEQ | BPF_K, O_CLOEXEC, 0, 1), result(SECCOMP_RET_ALLOW),
          statement(BPF_JMP | BPF_JSET | BPF_K, O_WRONLY | O_RDWR, 0, 1), result(error(0)),
          result(error(ENOENT))});
  }
  static constexpr uint32_t large_file = 0100000 | 0400000;  // O_LARGEFILE here and on ARM

  Code code_;
};

/// A descriptor that is closed with it.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

struct Pipe {
  Descriptor read, write;

  static Pipe make() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0)
      throw InputError(fmt::format("no pipe can be made: {}", std::strerror(errno)));
    return {Descriptor(ends[0]), Descriptor(ends[1])};
  }
};

/// All that the child needs: nothing is allocated between fork and exec.
struct Child {
  int bash, null, records, messages;
  char* const* arguments;
  char* const* environment;
  const sock_fprog* filter;
};

[[noreturn]] void give_up(const char* what) {
  const char* const why = strerrordesc_np(errno);
  (void)!write(STDERR_FILENO, what, std::strlen(what));
  (void)!write(STDERR_FILENO, ": ", 2);
  (void)!write(STDERR_FILENO, why, std::strlen(why));
  _exit(126);
}

void limit(__rlimit_resource resource, rlim_t most) {
  rlimit both{};
  if (getrlimit(resource, &both) != 0) give_up("its limits are not known");
  both.rlim_max = std::min(both.rlim_max, most);
  both.rlim_cur = both.rlim_max;
  if (setrlimit(resource, &both) != 0) give_up("it cannot be limited");
}

/// The kernel counts all of the user's processes. The smallest power of 2 that leaves room for one
/// more says about how many there are.
void limit_processes() {
  rlimit both{};
  getrlimit(RLIMIT_NPROC, &both);
  rlim_t most = 64;
  for (; most < both.rlim_max && most < (1 << 22); most *= 2) {
    const rlimit soft{most, both.rlim_max};
    setrlimit(RLIMIT_NPROC, &soft);
    const long other = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (other == 0) _exit(0);
    if (other < 0) continue;
    waitpid(static_cast<pid_t>(other), nullptr, 0);
    break;
  }
  limit(RLIMIT_NPROC, most + most_processes);
}

[[noreturn]] void become_bash(const Child& child) {
  setpgid(0, 0);
  if (dup2(child.messages, STDERR_FILENO) < 0) _exit(126);
  // Above where the others may be, then in their places.
  const int bash = fcntl(child.bash, F_DUPFD_CLOEXEC, 100), null = fcntl(child.null, F_DUPFD, 100),
            records = fcntl(child.records, F_DUPFD, 100);
  if (bash < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
      dup2(null, sealed_null) < 0 || dup2(records, sealed_records) < 0)
    give_up("its descriptors cannot be made");
  if (dup3(bash, sealed_null + 1, O_CLOEXEC) < 0) give_up("its descriptors cannot be made");
  for (int fd = STDERR_FILENO + 1; fd < sealed_records; ++fd) close(fd);
  const auto others = static_cast<unsigned>(sealed_null + 2);
#ifdef SYS_close_range
  if (syscall(SYS_close_range, others, ~0U, 0U) != 0)
#endif
    for (int fd = static_cast<int>(others); fd < (1 << 16); ++fd) close(fd);
  if (chdir("/") != 0) give_up("/ cannot be entered");
  if (geteuid() == 0) {  // no limit of processes holds for root
    syscall(SYS_setgroups, 0, nullptr);
    syscall(SYS_setgid, nobody);
    syscall(SYS_setuid, nobody);
  }
  limit_processes();
  limit(RLIMIT_CPU, most_seconds);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NOFILE, most_files);
  limit(RLIMIT_AS, most_memory);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, child.filter) != 0)
    give_up("the kernel has no filter for system calls (seccomp)");
  syscall(SYS_execveat, sealed_null + 1, "", child.arguments, child.environment, AT_EMPTY_PATH);
  give_up("bash cannot be started");
}

int open_bash() {
  for (const char* path : {"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"})
    if (const int fd = open(path, O_RDONLY | O_CLOEXEC); fd >= 0) return fd;
  throw InputError(
      "a shell script is followed by bash, which this machine has not; install the package bash, "
      "or "
      "give the arguments as a list that begins with --");
}

/// Appends a pipe's output to a text, up to `most` bytes in all; false at the pipe's end.
bool drain(int fd, std::string& to, size_t most) {
  std::array<char, 1 << 14> bytes{};
  const ssize_t count = ::read(fd, bytes.data(), bytes.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  to.append(bytes.data(), std::min(static_cast<size_t>(count), most - to.size()));
  return count > 0;
}

/// Reads both pipes until all writers have ended, the deadline has passed, or it is too much.
void watch(pid_t child, Pipe& records, Pipe& messages, Clock::time_point deadline,
           SealedBash& out) {
  bool open_records = true, open_messages = true;
  while (open_records || open_messages) {
    std::array<pollfd, 2> ends = {pollfd{open_records ? records.read.get() : -1, POLLIN, 0},
                                  pollfd{open_messages ? messages.read.get() : -1, POLLIN, 0}};
    poll(ends.data(), ends.size(), 10);
    if (ends[0].revents != 0) open_records = drain(ends[0].fd, out.written, most_written);
    if (ends[1].revents != 0) open_messages = drain(ends[1].fd, out.messages, most_messages);
    siginfo_t left{};
    if (!out.ended &&
        waitid(P_PID, static_cast<id_t>(child), &left, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        left.si_pid == child) {
      out.ended = left.si_code == CLD_EXITED;
      if (!out.ended) return;
      deadline = std::min(deadline, Clock::now() + others_wait);
    }
    if (Clock::now() > deadline || out.written.size() == most_written ||
        out.messages.size() == most_messages)
      return;
  }
  siginfo_t left{};
  waitid(P_PID, static_cast<id_t>(child), &left, WEXITED | WNOWAIT);
  out.ended = left.si_code == CLD_EXITED;
}

}  // namespace

SealedBash run_sealed_bash(const std::string& text, const std::string& name, bool only_check,
                           Clock::time_point deadline) {
  constexpr size_t most_text = 120000;  // the kernel's limit of an argument is 131072
  if (text.size() > most_text)
    throw InputError(fmt::format("{}: it is too long for a shell script: frugal follows {} bytes",
                                 name, most_text));
  const Descriptor bash(open_bash()), null(open("/dev/null", O_RDWR | O_CLOEXEC));
  Pipe records = Pipe::make(), messages = Pipe::make();
  std::vector<std::string> words = {"bash", "--norc", "--noprofile", "-c", text, name};
  if (only_check) words.insert(words.begin() + 3, "-n");
  std::vector<std::string> variables = {"PATH=/nowhere", "LC_ALL=C", "PWD=/"};
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (std::string& one : texts) all.push_back(one.data());
    all.push_back(nullptr);
    return all;
  };
  const std::vector<char*> arguments = pointers(words), environment = pointers(variables);
  Filter filter;
  const sock_fprog program = filter.program();
  const Child child{
      bash.get(),         null.get(), records.write.get(), messages.write.get(), arguments.data(),
      environment.data(), &program};
  const pid_t started = fork();
  if (started < 0) throw InputError(fmt::format("bash: {}", std::strerror(errno)));
  if (started == 0) become_bash(child);
  setpgid(started, started);
  records.write.close();
  messages.write.close();
  SealedBash out;
  watch(started, records, messages, deadline, out);
  kill(-started, SIGKILL);
  siginfo_t status{};
  waitid(P_PID, static_cast<id_t>(started), &status, WEXITED);
  out.started = !(status.si_code == CLD_EXITED && status.si_status == 126 && out.written.empty());
  return out;
}

}  // namespace frugal::harness
