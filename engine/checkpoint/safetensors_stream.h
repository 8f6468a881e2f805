#pragma once
#include <fstream>
#include <set>
#include <span>

#include "engine/checkpoint/safetensors_header.h"

/// Files of more than memory holds: one tensor, or a part of one, at a time.
namespace frugal::engine::safetensors {

/// A file whose header was found right; its tensors are read when they are asked for.
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

/// A file that is written tensor by tensor, in any order, under the name "<path>.part" until it is
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

}  // namespace frugal::engine::safetensors
