#pragma once
#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/host_tensor.h"

/// The safetensors format: 8 bytes of header length (little endian), a JSON header of name →
/// {dtype, shape, data_offsets}, and the data. Offsets count from the data's first byte.
namespace frugal::engine::safetensors {

/// Type of a stored element: F32, F64, I32, BF16 (the upper half of a float32), F16 (IEEE).
enum class Stored : uint8_t { f32, f64, i32, bf16, f16 };
constexpr Names names_of(Stored) { return {"F32", "F64", "I32", "BF16", "F16"}; }
int64_t size_of(Stored stored);

/// A tensor of a file, and its place in the data.
struct Entry {
  Stored stored = Stored::f32;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  ///< bytes

  int64_t elements() const;
};
using Entries = std::map<std::string, Entry>;
using Metadata = std::map<std::string, std::string>;

struct Header {
  Entries entries;
  Metadata metadata;
  uint64_t data = 0;  ///< where in the file the data begins, bytes
};

/// Reads a file's header and nothing else. Throws InputError that names the file, and the tensor,
/// if the file ends too early, the header is absurdly long, no JSON object or has a name twice, or
/// a tensor has another dtype, a size that does not fit its shape, or data that lies outside the
/// file or overlaps another's. Bytes that belong to no tensor are allowed.
Header read_header(const std::string& path);

/// The bytes of a file before its data.
std::string header_bytes(const Entries& entries, const Metadata& metadata);

/// Throws InputError: "<path>: <why>; write the file again".
[[noreturn]] void refuse(const std::string& path, const std::string& why);

/// Reads tensors of a file with a correct header, or parts of them, when they are asked for.
class Reader {
 public:
  /// Throws InputError as read_header() does.
  explicit Reader(const std::string& path);

  const std::string& path() const { return path_; }
  const Entries& entries() const { return header_.entries; }
  const Metadata& metadata() const { return header_.metadata; }
  /// Elements of a tensor that is there from number `first` on, as many as `values` has places.
  /// Throws InputError where the file has become shorter than it was, std::out_of_range for a
  /// tensor or elements that are not there.
  void read(const std::string& name, int64_t first, std::span<double> values);

 private:
  std::string path_;
  Header header_;
  std::ifstream in_;
};

/// Writes a file tensor by tensor, in any order, under the name "<path>.part" until it is
/// complete.
class Writer {
 public:
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
    Stored stored = Stored::f32;
  };
  /// Throws InputError when the file exists already or cannot be written.
  Writer(std::string path, const std::vector<Tensor>& tensors, const Metadata& metadata);
  /// Leaves no file behind unless close() was called.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// All values of a tensor, once. Throws std::logic_error for another number of them, and for one
  /// that was written; InputError where there is no place.
  void write(const std::string& name, std::span<const double> values);
  /// Gives the file its name. Throws std::logic_error when a tensor was not written, InputError as
  /// the constructor does.
  void close();

 private:
  [[noreturn]] void no_place() const;

  std::string path_, part_;
  Entries entries_;
  std::set<std::string> left_;
  uint64_t data_ = 0;
  std::ofstream out_;
  bool closed_ = false;
};

struct File {
  HostTensors tensors;
  Metadata metadata;
};

/// Writes f32 tensors as F32, i32 as I32. Throws InputError when the file cannot be written or
/// exists already.
void write(const std::string& path, const File& file);

/// Throws InputError as read_header() does. Nothing is read past the end.
File read(const std::string& path);

}  // namespace frugal::engine::safetensors
