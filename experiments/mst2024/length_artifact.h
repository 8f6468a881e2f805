#pragma once
#include <string>
#include <vector>

#include "experiments/mst2024/paper.h"
#include "experiments/outcome.h"
#include "harness/artifact.h"

namespace frugal::mst2024 {

/// How numbers were read that are not the paper's but arXiv:2506.13996's.
inline constexpr const char* another_papers = "arXiv:2506.13996";

/// A case: the longest sequence of a run, whose own length means nothing; or what a step takes of
/// one of so many tokens.
struct Search {
  std::string id;  ///< "llama3-8b/vanilla"
  RunConfig config;
  int64_t tokens = 0;  ///< 0: as many as fit
};
/// "llama3-8b/vanilla", as the paper trains.
Search search_of(const std::string& model, const Technique& technique,
                 Gradients gradients = Gradients::stepped);

/// The case of one whose length another has reported: what a step takes at that length.
inline std::string at_reported_length(const std::string& id) {
  return id + ", at the reported length";
}

/// A table of longest sequences, in thousands of tokens, on a virtual machine.
class LengthArtifact : public Artifact {
 public:
  /// `printed` says how the paper has the lengths of which it has ratios.
  LengthArtifact(std::string name, std::string machine, std::vector<Search> searches,
                 std::string printed)
      : name_(std::move(name)),
        machine_(std::move(machine)),
        searches_(std::move(searches)),
        printed_(std::move(printed)) {}

  std::string id() const override { return std::string(paper_id) + "/" + name_; }
  std::string title() const override { return paper().caption(name_); }
  /// None at another scale: a smaller model on the same machine has another longest sequence.
  std::vector<Case> cases(const Selection& selection) const override;
  std::vector<Cell> cells(const Records& records) const override;
  /// Of every number that the paper has one of.
  std::vector<Claim> claims(const Records& records) const override;

 protected:
  virtual std::vector<Cell> cells_in(const Setting& setting, const Records& records) const = 0;

  /// Where a case's records are.
  struct Place {
    const Setting& setting;
    const Records& records;
  };
  /// K tokens of a case, with what took the memory.
  Cell length(const Place& place, const std::string& row, const std::string& column,
              const std::string& case_id) const;
  /// GiB at a case's peak.
  Cell peak(const Place& place, const std::string& row, const std::string& column,
            const std::string& case_id) const;
  /// How many times as long one case's sequence is as another's.
  Cell ratio(const Place& place, const std::string& row, const std::string& column,
             const std::string& of, const std::string& over) const;

 private:
  Cell cell(const Place& place, const std::string& row, const std::string& column, const char* unit,
            const Outcome& outcome) const;

  std::string name_, machine_;
  std::vector<Search> searches_;
  std::string printed_;
};

}  // namespace frugal::mst2024
