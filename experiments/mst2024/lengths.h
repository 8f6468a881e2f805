#pragma once
#include "experiments/artifacts.h"
#include "experiments/cases.h"
#include "experiments/declaration.h"
#include "experiments/mst2024/paper.h"

/// What tables of longest sequences, in thousands of tokens, on a virtual machine, consist of.
namespace frugal::experiments::mst2024 {

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
/// None at another scale: a smaller model on the same machine has another longest sequence.
Cases search_cases(const std::string& machine, std::vector<Search> searches);

/// The case of one whose length another has reported: what a step takes at that length.
inline std::string at_reported_length(const std::string& id) {
  return id + ", at the reported length";
}

/// K tokens of a case.
DeclaredCell length(const std::string& row, const std::string& column, const std::string& case_id);
/// GiB at a case's peak.
DeclaredCell peak(const std::string& row, const std::string& column, const std::string& case_id);
/// How many times as long one case's sequence is as another's.
DeclaredCell ratio(const std::string& row, const std::string& column, const std::string& of,
                   const std::string& over);

/// Says of a length what took the memory, and of what differs from the paper's why.
void complete_length(Cell& cell, const DeclaredCell& declared, const Runs& runs);

/// Claims of every length and ratio that the paper has.
Claims claims_of_lengths();

}  // namespace frugal::experiments::mst2024
