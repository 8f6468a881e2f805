// What is chosen once for a product: once in a process, and once for those that come after it.
#include "kernels/cuda/algorithms.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <latch>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "engine/memory/tensor.h"
#include "kernels/cuda/gpus.h"
#include "tests/emulator/arena.h"
#include "tests/emulator/gpu.h"

namespace frugal::engine {
namespace {

using cuda::Algorithm;
using cuda::Algorithms;
using ::testing::HasSubstr;

/// c [m, 3] of ones, each a sum over `depth`.
void expect_product(Device& device, int64_t m, int64_t depth = 4) {
  Ledger ledger(device);
  const Tensor a(ledger, Kind::activation, DType::f32, {m, depth}),
      b(ledger, Kind::activation, DType::f32, {depth, 3}),
      c(ledger, Kind::activation, DType::f32, {m, 3});
  device.execute(Fill{a, 1});
  device.execute(Fill{b, 1});
  device.execute(Gemm{.a = a, .b = b, .c = c});
  std::vector<float> values(static_cast<size_t>(3 * m));
  device.copy_to_host(values.data(), c);
  EXPECT_EQ(values, std::vector<float>(values.size(), static_cast<float>(depth)));
}

/// Number of times that the library is asked for algorithms meanwhile.
int64_t asked(const std::function<void()>& work) {
  const int64_t before = emulator::asked_for_algorithms();
  work();
  return emulator::asked_for_algorithms() - before;
}

TEST(AlgorithmsTest, ADeviceTimesWhatNoneBeforeItHas) {
  const auto on_a_device = [](int64_t m) {
    return asked([&] {
      expect_product(*make_cuda_device(), m);
      expect_product(*make_cuda_device(), m);
    });
  };
  const GemmAlgorithms before = gemm_algorithms();
  EXPECT_EQ(on_a_device(5), 1);
  EXPECT_EQ(on_a_device(5), 0);
  EXPECT_EQ(on_a_device(6), 1) << "another product";
  EXPECT_EQ(gemm_algorithms().timed, before.timed + 2);
  EXPECT_EQ(gemm_algorithms().cached, before.cached);
}

/// Neither waits for the other, and both go on with one choice.
TEST(AlgorithmsTest, TwoThreadsChooseOnce) {
  const int64_t before = gemm_algorithms().timed;
  std::latch both(2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      const auto device = make_cuda_device();
      both.arrive_and_wait();
      for (int64_t m = 30; m < 40; ++m) expect_product(*device, m);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(gemm_algorithms().timed, before + 10);
  EXPECT_EQ(asked([] {
              const auto device = make_cuda_device();
              for (int64_t m = 30; m < 40; ++m) expect_product(*device, m);
            }),
            0);
}

/// Products without memory to be timed in, which accumulate, are computed all the same, and
/// timed as soon as there is.
TEST(AlgorithmsTest, WhatCouldNotBeTimedIsTimedLater) {
  const auto device = make_cuda_device();
  Ledger ledger(*device);
  const Tensor a(ledger, Kind::activation, DType::f32, {50, 2}),
      b(ledger, Kind::activation, DType::f32, {2, 3}),
      c(ledger, Kind::activation, DType::f32, {50, 3});
  for (const Tensor* const x : {&a, &b, &c}) device->execute(Fill{*x, 1});
  int products = 0;
  // How often the library is asked for algorithms, and how many products are kept as timed.
  const auto execute = [&] {
    const int64_t timed = gemm_algorithms().timed;
    const int64_t times =
        asked([&] { device->execute(Gemm{.a = a, .b = b, .c = c, .accumulate = true}); });
    ++products;
    return std::pair(times, gemm_algorithms().timed - timed);
  };
  const std::pair<int64_t, int64_t> tried{1, 0}, not_tried{0, 0}, kept{1, 1};
  const int64_t memory = emulator::gpu().memory;
  emulator::gpu().memory = static_cast<int64_t>(emulator::arena::in_use(0));
  EXPECT_EQ(execute(), tried);
  EXPECT_EQ(execute(), tried);
  EXPECT_EQ(execute(), not_tried);
  EXPECT_EQ(execute(), tried) << "ever more seldom";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(execute(), not_tried);
  emulator::gpu().memory = memory;
  EXPECT_EQ(execute(), kept);
  EXPECT_EQ(execute(), not_tried);
  std::vector<float> values(150);
  device->copy_to_host(values.data(), c);
  EXPECT_EQ(values, std::vector<float>(150, static_cast<float>(1 + 2 * products)));
}

/// Processes that share a file.
class AlgorithmsFile : public ::testing::Test {
 protected:
  AlgorithmsFile() : folder_(::testing::TempDir() + "algorithms." + std::to_string(getpid())) {}
  ~AlgorithmsFile() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ + "/gemm.json"; }
  std::unique_ptr<Algorithms> process(const std::string& identity = gpu, size_t most = 10) const {
    return std::make_unique<Algorithms>(path(), identity, most);
  }
  Algorithm found(const std::string& problem, const std::string& identity = gpu) const {
    const auto found = process(identity)->find(problem);
    return found ? found->algorithm : Algorithm{};
  }
  void write(const std::string& text) const {
    std::filesystem::create_directories(folder_);
    std::ofstream(path(), std::ios::binary) << text;
  }
  /// Standard error of a process that looks for two products, and keeps two others.
  std::string complaint() const {
    const auto wrong = process();
    ::testing::internal::CaptureStderr();
    EXPECT_FALSE(wrong->find("a product"));
    EXPECT_FALSE(wrong->find("another"));
    wrong->keep_timed("a third", one);
    wrong->keep_timed("a fourth", one);
    return ::testing::internal::GetCapturedStderr();
  }

  static constexpr const char* gpu = "a GPU; a library; a driver";
  static constexpr Algorithm one = {1, 2, 3, 4, 5, 6, 7, 0xFEDCBA9876543210U}, other = {9};
  const std::string folder_;
};

TEST_F(AlgorithmsFile, TheFirstChoiceStays) {
  Algorithms algorithms("", "a GPU");
  EXPECT_FALSE(algorithms.find("a product"));
  EXPECT_EQ(algorithms.keep_timed("a product", one), one);
  EXPECT_EQ(algorithms.keep_timed("a product", other), one);
  EXPECT_EQ(algorithms.find("a product")->algorithm, one);
  EXPECT_FALSE(algorithms.find("a product")->read);
}

/// Ranks that are processes, each of which looks before any has timed.
TEST_F(AlgorithmsFile, TheFirstProcessChoosesForAll) {
  const auto first = process(), second = process();
  EXPECT_FALSE(first->find("a product"));
  EXPECT_FALSE(second->find("a product"));
  EXPECT_EQ(first->keep_timed("a product", one), one);
  EXPECT_EQ(second->keep_timed("a product", other), one);
  EXPECT_EQ(second->find("a product")->algorithm, one);
  const std::filesystem::directory_iterator files(folder_);
  EXPECT_EQ(std::distance(begin(files), end(files)), 2) << "it and its lock";

  // What another library has written there, and this one refuses, is not chosen for anybody.
  const auto later = process();
  EXPECT_TRUE(later->find("a product")->read);
  EXPECT_EQ(later->keep_timed("a product", other), other);
  EXPECT_EQ(found("a product"), other);
}

TEST_F(AlgorithmsFile, AnotherGpuOrLibraryHasItsOwn) {
  process()->keep_timed("a product", one);
  EXPECT_EQ(found("a product", "a GPU; another library"), Algorithm{});
  process("a GPU; another library")->keep_timed("a product", other);
  EXPECT_EQ(found("a product", "a GPU; another library"), other);
  EXPECT_EQ(found("a product"), one);
}

TEST_F(AlgorithmsFile, ThreadsLoseNothing) {
  constexpr int each = 20;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const auto mine = process(gpu, 100);
      for (int i = 0; i < each; ++i) mine->keep_timed(std::to_string(t * each + i), one);
    });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 4 * each; ++i) EXPECT_EQ(found(std::to_string(i)), one);
}

TEST_F(AlgorithmsFile, AWrongOneIsIgnoredWithOneLineAndReplaced) {
  process()->keep_timed("a product", one);
  std::ifstream in(path());
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::string> wrong{"[]", "somebody else's", R"({"a GPU": {"a product": [1]}})",
                                 R"({"a GPU": 1})", std::string(1 << 12, '\0')};
  for (size_t size = 0; size < whole.size(); ++size) wrong.push_back(whole.substr(0, size));
  for (const std::string& text : wrong) {
    write(text);
    const std::string said = complaint();
    EXPECT_THAT(said, HasSubstr("ignored")) << text;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
    EXPECT_EQ(found("a fourth"), one);
  }
  write(whole);
  EXPECT_EQ(found("a product"), one);
}

TEST_F(AlgorithmsFile, WhatCannotBeWrittenIsGivenUpWithOneLine) {
  std::ofstream(folder_) << "no folder";
  const std::string said = complaint();
  EXPECT_THAT(said, HasSubstr("cannot be written"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
  std::filesystem::remove(folder_);
  std::filesystem::create_directories(path());
  EXPECT_THAT(complaint(), HasSubstr("ignored"));
}

TEST_F(AlgorithmsFile, HasSoManyAndNoMore) {
  for (int i = 0; i < 5; ++i) process(gpu, 3)->keep_timed(std::to_string(i), one);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(found(std::to_string(i)), i < 3 ? one : Algorithm{});
}

TEST(AlgorithmsTest, GpusAreOfOneKindOrAnother) {
  Gpu gpu = gpus().front();
  EXPECT_EQ(&cuda::algorithms_of(gpu), &cuda::algorithms_of(gpus().front()));
  gpu.name += " II";
  EXPECT_NE(&cuda::algorithms_of(gpu), &cuda::algorithms_of(gpus().front()));
  EXPECT_NE(cuda::identity_of(gpu), cuda::identity_of(gpus().front()));
  gpu = gpus().front();
  gpu.driver = 12040;
  EXPECT_NE(&cuda::algorithms_of(gpu), &cuda::algorithms_of(gpus().front()));
}

/// Processes, one after another, that share a folder.
class AlgorithmsDeathTest : public ::testing::Test {
 protected:
  AlgorithmsDeathTest() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    // The processes are this test once more, and inherit what the first one says.
    setenv("FRUGAL_TEST_PROCESS", std::to_string(getpid()).c_str(), 0);
    first_ = std::getenv("FRUGAL_TEST_PROCESS");
    folder_ = ::testing::TempDir() + "algorithms_of." + first_;
  }
  ~AlgorithmsDeathTest() override {
    std::filesystem::remove_all(folder_);
    unsetenv("FRUGAL_TEST_PROCESS");
  }
  /// True in the process that starts the others.
  bool first() const { return first_ == std::to_string(getpid()); }
  std::string path() const { return folder_ + "/gemm.json"; }
  /// Does what another process does, which ends with "timed T cached C asked A".
  [[noreturn]] void process() const {
    setenv("FRUGAL_CACHE", folder_.c_str(), 1);
    const int64_t times = asked([] {
      expect_product(*make_cuda_device(), 5);
      expect_product(*make_cuda_device(), 5);
      expect_product(*make_cuda_device(), 6, 7);
    });
    std::fprintf(stderr, "timed %ld cached %ld asked %ld\n", long{gemm_algorithms().timed},
                 long{gemm_algorithms().cached}, long{times});
    std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
  }

  std::string first_, folder_;
};

TEST_F(AlgorithmsDeathTest, AnotherProcessTimesNothing) {
  EXPECT_EXIT(process(), ::testing::ExitedWithCode(0), "timed 2 cached 0 asked 2");
  EXPECT_EXIT(process(), ::testing::ExitedWithCode(0), "timed 0 cached 2 asked 0");
  EXPECT_EXIT(process(), ::testing::ExitedWithCode(0), "timed 0 cached 2 asked 0");
}

/// Algorithms of another version, if their file were taken for this one's.
TEST_F(AlgorithmsDeathTest, WhatTheLibraryRefusesIsChosenAgain) {
  EXPECT_EXIT(process(), ::testing::ExitedWithCode(0), "timed 2 cached 0 asked 2");
  if (first()) {
    auto all = nlohmann::json::parse(std::ifstream(path()));
    for (auto& algorithm : all.at(cuda::identity_of(gpus().front())))
      algorithm = Algorithm{1, 2, 3};
    std::ofstream(path()) << all;
  }
  EXPECT_EXIT(process(), ::testing::ExitedWithCode(0), "timed 2 cached 0 asked 2");
  EXPECT_EXIT(process(), ::testing::ExitedWithCode(0), "timed 0 cached 2 asked 0");
}

}  // namespace
}  // namespace frugal::engine
