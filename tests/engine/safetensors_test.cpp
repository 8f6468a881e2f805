#include "engine/train/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "kernels/support/error.h"

namespace frugal {
namespace {

class Safetensors : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("frugal-safetensors-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const char* name) const { return (folder_ / name).string(); }

  /// A file with this header and `bytes` bytes of data.
  std::string file_with(const std::string& header, size_t bytes) const {
    const std::string to = path("bad.safetensors");
    std::ofstream out(to, std::ios::binary);
    const uint64_t length = header.size();
    out.write(reinterpret_cast<const char*>(&length), 8);
    out << header << std::string(bytes, 'x');
    return to;
  }
  void expect_refused(const std::string& header, size_t bytes, const std::string& why) const {
    const std::string file = file_with(header, bytes);
    try {
      safetensors::read(file);
      FAIL() << "read: " << header;
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(file), std::string::npos) << e.what();
    }
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(Safetensors, WhatIsWrittenIsRead) {
  safetensors::File file;
  file.metadata["hidden"] = "32";
  file.tensors["a"] = {{2, 3}, {1, -2, 0.5, 4, 5, 1e-3F}, DType::f32};
  file.tensors["ids"] = {{4}, {1, 2, -100, 4}, DType::i32};
  safetensors::write(path("f"), file);
  const safetensors::File back = safetensors::read(path("f"));
  EXPECT_EQ(back.metadata, file.metadata);
  EXPECT_EQ(back.tensors.at("a").values, file.tensors.at("a").values);
  EXPECT_EQ(back.tensors.at("a").shape, file.tensors.at("a").shape);
  EXPECT_EQ(back.tensors.at("ids").values, file.tensors.at("ids").values);
  EXPECT_THROW(safetensors::write(path("f"), file), InputError) << "an existing file";
  EXPECT_THROW(safetensors::write(path("no/such/folder"), file), InputError);
}

TEST_F(Safetensors, BadFilesAreRefusedByName) {
  EXPECT_THROW(safetensors::read(path("absent")), InputError);
  std::ofstream(path("short")) << "abc";
  EXPECT_THROW(safetensors::read(path("short")), InputError);
  expect_refused("{", 0, "not a JSON object");
  expect_refused(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4, "bytes 0 to 8");
  expect_refused(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "needs 12");
  expect_refused(R"({"w":{"dtype":"F16","shape":[4],"data_offsets":[0,8]}})", 8, "dtype F16");
  expect_refused(R"({"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "shape");
  expect_refused(R"({"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})", 8,
                 "shape");
  expect_refused(R"({"w":{"dtype":"F32","shape":[2]}})", 8, "data_offsets");
  expect_refused(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "bytes 8 to 0");
  expect_refused(R"({"v":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                 R"("w":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                 12, "overlap");
}

}  // namespace
}  // namespace frugal
