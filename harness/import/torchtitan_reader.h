#pragma once
#include <string>
#include <string_view>

#include "harness/import/torchtitan.h"

namespace frugal::harness {

/// A job's configuration of torchtitan, and the fields that came of it so far.
class TorchtitanReader {
 public:
  TorchtitanReader(const nlohmann::json& job, const std::string& file, const ImportOptions& options)
      : options_(options), parts_(job, file), file_(file) {}

  /// Reads the whole configuration; to be called once.
  Imported read();

 private:
  void add(std::string_view path, const std::string& key, const nlohmann::json& value,
           const std::string& note = "") {
    out_.add(parts_.said(path), key, value, note);
  }
  void same(std::string_view path, const std::string& why) {
    if (parts_.has(path)) out_.same.push_back({parts_.said(path), why});
    parts_.take(path);
  }
  bool is_given(const char* key) const { return options_.given.contains(key); }
  int64_t size(const std::string& key) const { return out_.given.value(key, int64_t{1}); }
  /// The section that has it: that depends on the version.
  std::string path_of(const std::string& name) const;
  /// A degree of parallelism; 1 where it is not said.
  int64_t degree(const std::string& name, const std::string& key);
  void read_model();
  void read_flavor();
  void read_layout();
  /// Replicas are copies times those that divide the weights of one.
  void read_replicas(int64_t of_one);
  /// Whether gathered weights are given back between a forward and a backward pass.
  void read_gathering(bool divides);
  void read_schedule();
  /// Stages have as many layers each, the embedding and the output layer being counted as layers.
  void read_stages(int64_t stages);
  void read_batch();
  /// Passes of a whole local batch before a step.
  int64_t accumulated(int64_t of_replica);
  void read_training();
  /// Names the program, by what a compiler fuses.
  void read_program();
  void read_optimizer();
  void read_recomputation();
  /// Recomputes by torchtitan's policy, which keeps a layer's input, the first of every two
  /// products, and attention's result and statistics. So keys, the output of attention, the MLP's
  /// second product and all that is no product are computed again.
  void recompute_operations(const std::string& said);
  /// Every n-th layer is computed again from its input.
  void recompute_layers(const std::string& said, int64_t every);
  void say_rest();

  const ImportOptions& options_;
  NestedParts parts_;
  const std::string file_;
  Imported out_;
  int64_t layers_ = 1, chunks_ = 1, replicas_ = 1;
};

}  // namespace frugal::harness
