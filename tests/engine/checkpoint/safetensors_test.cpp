#include "engine/checkpoint/safetensors.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "kernels/support/error.h"
#include "tests/support/folder.h"
#include "tests/support/message_of.h"

namespace frugal::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Safetensors : public ::testing::Test {
 protected:
  std::string path(const char* name) const { return folder_ / name; }

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
    EXPECT_THAT(message_of<InputError>([&] { (void)safetensors::read(file); }),
                AllOf(HasSubstr(why), HasSubstr(file)));
  }

 private:
  testing::Folder folder_;
};

TEST_F(Safetensors, WhatIsWrittenIsRead) {
  safetensors::File file;
  file.metadata["hidden"] = "32";
  file.tensors["a"] = {{2, 3}, {1, -2, 0.5, 4, 5, 1e-3F}, DType::f32};
  file.tensors["ids"] = {{4}, {1, 2, -100, 4}, DType::i32};
  file.tensors["none"] = {{0, 3}, {}, DType::f32};
  safetensors::write(path("f"), file);
  const safetensors::File back = safetensors::read(path("f"));
  EXPECT_EQ(back.metadata, file.metadata);
  EXPECT_EQ(back.tensors.at("a").values, file.tensors.at("a").values);
  EXPECT_EQ(back.tensors.at("a").shape, file.tensors.at("a").shape);
  EXPECT_EQ(back.tensors.at("ids").values, file.tensors.at("ids").values);
  EXPECT_EQ(back.tensors.at("none").shape, file.tensors.at("none").shape);
  EXPECT_THROW(safetensors::write(path("f"), file), InputError) << "an existing file";
  EXPECT_THROW(safetensors::write(path("no/such/folder"), file), InputError);
}

TEST_F(Safetensors, PartsOfTensorsAreReadAndOthersLeftAlone) {
  using safetensors::Stored;
  {
    safetensors::Writer writer(path("f"), {{"a", {70000}, Stored::f64}, {"b", {3}, Stored::bf16}},
                               {});
    const double exact[] = {1, -0.15625, 384};
    writer.write("b", exact);
    std::vector<double> many(70000);
    for (size_t i = 0; i < many.size(); ++i) many[i] = 1.0 / static_cast<double>(i + 3);
    writer.write("a", many);
    EXPECT_FALSE(std::filesystem::exists(path("f"))) << "not complete yet";
    writer.close();
  }
  safetensors::Reader reader(path("f"));
  std::vector<double> last(66000);
  reader.read("a", 4000, last);
  EXPECT_EQ(last.front(), 1.0 / 4003);
  EXPECT_EQ(last.back(), 1.0 / 70002);
  std::vector<double> two(2);
  reader.read("b", 1, two);
  EXPECT_EQ(two, (std::vector<double>{-0.15625, 384}));
  EXPECT_THROW(reader.read("b", 2, two), std::out_of_range);
  EXPECT_THROW(reader.read("c", 0, two), std::out_of_range);
  std::filesystem::resize_file(path("f"), std::filesystem::file_size(path("f")) - 1);
  EXPECT_THROW(reader.read("b", 1, two), InputError) << "shorter than it was";
}

TEST_F(Safetensors, AnIncompleteFileIsNotLeftBehind) {
  {
    safetensors::Writer writer(path("f"), {{"a", {1}}}, {});
    EXPECT_THROW(writer.close(), std::logic_error);
    EXPECT_THROW(writer.write("b", {}), std::logic_error);
    EXPECT_THROW(writer.write("a", {}), std::logic_error) << "another number of values";
  }
  EXPECT_FALSE(std::filesystem::exists(path("f")));
  EXPECT_FALSE(std::filesystem::exists(path("f.part")));
}

/// IEEE binary16, value by value: every finite one has 11 significant bits, so that float64 tells
/// them apart.
TEST_F(Safetensors, HalvesAreRead) {
  const std::string file =
      file_with(R"({"w":{"dtype":"F16","shape":[8],"data_offsets":[0,16]}})", 0);
  const uint16_t bits[] = {0x3c00, 0xc000, 0x3555, 0x7bff, 0x0001, 0x8400, 0x7c00, 0x7e00};
  std::ofstream(file, std::ios::binary | std::ios::app)
      .write(reinterpret_cast<const char*>(bits), sizeof(bits));
  const auto values = safetensors::read(file).tensors.at("w").values;
  const std::vector<double> expected = {1, -2, 1365.0 / 4096, 65504, 0x1p-24, -0x1p-14, INFINITY};
  EXPECT_EQ(std::vector(values.begin(), values.end() - 1), expected);
  EXPECT_TRUE(std::isnan(values.back()));
}

TEST_F(Safetensors, BadFilesAreRefusedByName) {
  EXPECT_THROW(safetensors::read(path("absent")), InputError);
  EXPECT_THROW(safetensors::read(path("")), InputError) << "a folder";
  std::ofstream(path("short")) << "abc";
  EXPECT_THROW(safetensors::read(path("short")), InputError);
  expect_refused("{", 0, "not valid JSON");
  expect_refused("[]", 0, "not a JSON object");
  expect_refused(R"({"__metadata__":1})", 0, "__metadata__");
  expect_refused(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4, "bytes 0 to 8");
  expect_refused(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "needs 12");
  expect_refused(R"({"w":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", 8, "dtype I64");
  expect_refused(R"({"w":{"shape":[2],"data_offsets":[0,8]}})", 8, "w.dtype is missing");
  expect_refused(R"({"w":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", 8, "whole numbers");
  expect_refused(R"({"w":{"dtype":"F32","shape":[true,2],"data_offsets":[0,8]}})", 8,
                 "whole numbers");
  expect_refused(R"({"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8,
                 "does not fit the file");
  expect_refused(R"({"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})", 8,
                 "does not fit the file");
  expect_refused(R"({"w":{"dtype":"F32","shape":[2]}})", 8, "data_offsets");
  expect_refused(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "bytes 8 to 0");
  expect_refused(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})", 8, "w.data_offsets");
  expect_refused(R"({"v":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                 R"("w":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                 12, "overlap");
  expect_refused(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                 R"("w":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
                 16, "stands twice");
}

TEST_F(Safetensors, HeadersThatAreNotThereAreNotAskedFor) {
  const auto expect = [&](uint64_t length, uint64_t size, const char* why) {
    const std::string to = path("length");
    std::ofstream(to, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(&length), 8);
    std::filesystem::resize_file(to, size);  // a hole, no bytes on the disk
    EXPECT_THAT(message_of<InputError>([&] { (void)safetensors::read(to); }), HasSubstr(why));
  };
  expect(100, 50, "ends within its header");
  expect(~uint64_t{0}, 50, "ends within its header");
  expect(200'000'000, 300'000'000, "100000000 are allowed");
}

TEST_F(Safetensors, BytesOfNoTensorAreAllowed) {
  const std::string file =
      file_with(R"({"w":{"dtype":"I32","shape":[1],"data_offsets":[8,12]}})", 8);
  const int32_t value = 42;
  std::ofstream(file, std::ios::binary | std::ios::app)
      .write(reinterpret_cast<const char*>(&value), 4);
  EXPECT_EQ(safetensors::read(file).tensors.at("w").values.at(0), 42);
}

}  // namespace
}  // namespace frugal::engine
