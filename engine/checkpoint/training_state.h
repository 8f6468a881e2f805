#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/checkpoint/host_tensor.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/model/parameter.h"

namespace frugal::engine {

/// A tensor of a rank that a training needs to resume: a parameter's weights, or their part of an
/// optimizer's state.
struct StateTensor {
  std::string name;  ///< "weight/NAME", "previous_weight/NAME", "moment/NAME", …
  View local;        ///< this rank's part
  Shape serial;
  GlobalIndex index;  ///< where the elements stand that this rank's group has, in the serial tensor
  int64_t first = 0;  ///< of these, where the part begins
};

/// Writes a rank's tensors to a new safetensors file, each as it is and with its place. Throws
/// InputError as safetensors::Writer does, and WrongNumbers for a value that is not finite: no
/// training can resume from it.
void write_state(const std::string& path, Device& device, const std::vector<StateTensor>& tensors);

/// State that the ranks of a run have written, whatever layout they had.
class StoredState {
 public:
  /// Throws InputError for a file that is not right.
  explicit StoredState(const std::vector<std::string>& files);

  bool has(const std::string& name) const { return parts_.contains(name); }
  /// Fills a rank's part of a tensor, exactly with what was written. Throws InputError where the
  /// files do not have all of it, or have another shape.
  void read(const StateTensor& into, Device& device) const;

 private:
  struct Part {
    safetensors::Reader* file;
    GlobalIndex index;
    int64_t first;
  };

  HostTensor serial(const StateTensor& like) const;

  std::vector<std::unique_ptr<safetensors::Reader>> files_;
  std::map<std::string, std::vector<Part>> parts_;  ///< of each tensor
};

}  // namespace frugal::engine
