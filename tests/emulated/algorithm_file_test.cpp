// What processes leave for each other: merged, replaced as a whole, and believed only as written.
#include "kernels/cuda/algorithm_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

namespace frugal::kernels {
namespace {

using cuda::Algorithm;
using cuda::AlgorithmFile;
using ::testing::HasSubstr;

constexpr Algorithm one = {1, 2, 3, 4, 5, 6, 7, 0xFEDCBA9876543210U}, other = {9};
constexpr const char* gpu = "a GPU; a library; a driver";

class AlgorithmFileTest : public ::testing::Test {
 protected:
  AlgorithmFileTest() : folder_(::testing::TempDir() + "algorithms." + std::to_string(getpid())) {}
  ~AlgorithmFileTest() override { std::filesystem::remove_all(folder_); }
  AlgorithmFile file(const std::string& identity = gpu) const {
    return AlgorithmFile(folder_, identity);
  }
  /// What reading says on stderr, where it finds nothing.
  std::string complaint() const {
    AlgorithmFile wrong = file();
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(wrong.read().empty());
    EXPECT_TRUE(wrong.read().empty());
    return ::testing::internal::GetCapturedStderr();
  }
  std::string content() const {
    std::ifstream in(file().path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& text) const {
    std::filesystem::create_directories(folder_);
    std::ofstream(file().path(), std::ios::binary) << text;
  }

  std::string folder_;
};

TEST_F(AlgorithmFileTest, IsReadByOthers) {
  EXPECT_TRUE(file().read().empty());
  file().add("a product", one);
  file().add("another", other);
  file().add("another", one);
  const AlgorithmFile::Algorithms all = {{"a product", one}, {"another", one}};
  EXPECT_EQ(file().read(), all);
  const std::filesystem::directory_iterator files(folder_);
  EXPECT_EQ(std::distance(begin(files), end(files)), 2) << "it and its lock";
}

TEST_F(AlgorithmFileTest, AnotherGpuOrLibraryHasAnother) {
  file().add("a product", one);
  EXPECT_TRUE(file("a GPU; another library; a driver").read().empty());
  // Even where the names of two files are the same.
  std::filesystem::copy(file().path(), file("another GPU").path());
  AlgorithmFile wrong = file("another GPU");
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(wrong.read().empty());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("ignored"));
}

TEST_F(AlgorithmFileTest, ThreadsLoseNothing) {
  constexpr int each = 20;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      AlgorithmFile mine = file();
      for (int i = 0; i < each; ++i) mine.add(std::to_string(t * each + i), one);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(file().read().size(), 4 * each);
}

TEST_F(AlgorithmFileTest, WhatIsCutOffIsIgnoredWithOneLine) {
  file().add("a product", one);
  file().add("another", one);
  const std::string whole = content();
  for (size_t size = 0; size < whole.size(); ++size) {
    write(whole.substr(0, size));
    const std::string said = complaint();
    EXPECT_THAT(said, HasSubstr("ignored"));
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
  }
  write(whole);
  EXPECT_EQ(file().read().size(), 2);
}

TEST_F(AlgorithmFileTest, WhatIsChangedIsIgnored) {
  file().add("a product", one);
  const std::string whole = content();
  std::mt19937 draw(1);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ (1 << draw() % 8));
    write(changed);
    EXPECT_THAT(complaint(), HasSubstr("ignored")) << at;
  }
  write(std::string(1 << 12, '\0'));
  EXPECT_THAT(complaint(), HasSubstr("ignored"));
}

TEST_F(AlgorithmFileTest, WhatIsIgnoredIsReplaced) {
  write("somebody else's");
  AlgorithmFile mine = file();
  ::testing::internal::CaptureStderr();
  mine.add("a product", one);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("ignored"));
  EXPECT_EQ(file().read(), (AlgorithmFile::Algorithms{{"a product", one}}));
}

TEST_F(AlgorithmFileTest, AFolderInItsPlaceIsNoFile) {
  std::filesystem::create_directories(file().path());
  EXPECT_THAT(complaint(), HasSubstr("ignored"));
}

TEST_F(AlgorithmFileTest, WhatCannotBeWrittenIsGivenUpWithOneLine) {
  std::ofstream(folder_) << "no folder";
  AlgorithmFile mine = file();
  ::testing::internal::CaptureStderr();
  mine.add("a product", one);
  mine.add("another", one);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("cannot be written"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
}

TEST_F(AlgorithmFileTest, WithoutAFolderNothingIsKept) {
  AlgorithmFile none("", gpu);
  none.add("a product", one);
  EXPECT_TRUE(none.read().empty());
}

TEST_F(AlgorithmFileTest, KeepsSoManyAndNoMore) {
  AlgorithmFile mine(folder_, gpu, 3);
  for (int i = 0; i < 5; ++i) mine.add(std::to_string(i), one);
  EXPECT_EQ(mine.read().size(), 3);
  mine.add("0", other);
  EXPECT_EQ(mine.read().at("0"), other);
}

}  // namespace
}  // namespace frugal::kernels
