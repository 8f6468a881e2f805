#include "kernels/cpu/device.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <type_traits>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/gemm.h"
#include "kernels/support/error.h"

namespace frugal::kernels {

CpuDevice::CpuDevice(int threads, std::shared_ptr<MemoryBudget> memory)
    // oneDNN divides work for as many threads as it is told, and gives wrong results when OpenMP
    // then has fewer.
    : threads_(std::min(threads, omp_get_thread_limit())),
      kernels_(choose_kernels()),
      memory_(std::move(memory)),
      gemm_(std::make_unique<CpuGemm>(threads_, kernels_)),
      attention_(std::make_unique<CpuAttention>(*gemm_, kernels_)) {
  if (threads < 1) {
    throw InputError(fmt::format("threads of a cpu device ({}) must be at least 1", threads));
  }
}

CpuDevice::~CpuDevice() = default;

void CpuDevice::run_on(Stream stream, const Operation& operation) {
  if (const double until = busy_until_[stream.index]; until > 0) wait_until(until);
  if (omp_get_max_threads() != threads_) omp_set_num_threads(threads_);
  std::visit(
      [&](const auto& op) {
        using Op = std::decay_t<decltype(op)>;
        if constexpr (OwnKernel<Op>) {
          kernels_(op);
        } else if constexpr (WithEpilogue<Op>) {
          gemm_->run(op.gemm);
          kernels_(op.epilogue());
        } else if constexpr (std::is_same_v<Op, Gemm>) {
          gemm_->run(op);
        } else {
          attention_->run(op);
        }
      },
      operation);
}

double CpuDevice::now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Sleeps most of the time and looks at the clock for the rest, because waking up takes a while.
void CpuDevice::wait_until(double moment) {
  constexpr double waking = 200e-6;
  while (true) {
    const double left = moment - now();
    if (left <= 0) return;
    if (left > waking)
      std::this_thread::sleep_for(std::chrono::duration<double>(left - waking));
    else
      std::this_thread::yield();
  }
}

void CpuDevice::occupy(Stream stream, double seconds, std::string_view /*name*/) {
  double& until = busy_until_[stream.index];
  until = std::max(until, now()) + seconds;
}

Event CpuDevice::record(Stream stream) {
  return {.time = std::max(busy_until_[stream.index], now()), .handle = nullptr};
}

void CpuDevice::wait(Stream stream, const Event& event) {
  double& until = busy_until_[stream.index];
  until = std::max(until, event.time);
}

void CpuDevice::synchronize() {
  for (const double until : busy_until_) wait_until(until);
}

void CpuDevice::copy_to_host(void* host, const View& from) {
  assert(from.contiguous());
  synchronize();
  if (from.size() > 0) std::memcpy(host, from.data, static_cast<size_t>(from.bytes()));
}

void CpuDevice::copy_from_host(const View& to, const void* host) {
  assert(to.contiguous());
  synchronize();
  if (to.size() > 0) std::memcpy(to.data, host, static_cast<size_t>(to.bytes()));
}

}  // namespace frugal::kernels
