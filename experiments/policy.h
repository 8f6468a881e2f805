#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "experiments/namespace.h"
#include "harness/record/cell.h"

/// How far a number may be off and still be called reproduced: one policy for all papers.
/// docs/verdicts.md is its page.
namespace frugal::experiments::policy {

/// How a number comes about, which decides how well it can be met.
enum class Made : uint8_t {
  counted,   ///< bytes of tensors, lengths, layers, passes: the same wherever it is counted
  measured,  ///< memory of a process, in which libraries have their part
  timed,     ///< seconds, or what is done in a second
  compared   ///< a ratio of two such numbers, or a percentage of one
};
/// What a unit says of it: ms, s and what is done in a second are timed, x and % compared. What is
/// compared may be counts (`name` is "counted"), and what looks counted measured ("measured"): an
/// artifact says so in paper.json. Throws InputError for another name.
Made made(std::string_view unit, std::string_view name);

/// The parts of a number, or of an effect, by which it may be off. Timed: a model of a machine
/// meets a layer's time to 3 % where it was fitted to it. Measured: what a program holds is
/// executed to the byte, and the libraries that it calls hold some more.
inline constexpr double of_measured = 0.005, of_timed = 0.05, of_compared = 0.1;
/// No tolerance is more than this part of the effect.
inline constexpr double of_effect = 0.5;

/// What a number would be if what it is about had no effect.
struct NoEffect {
  double value = 0;
  /// Whether it is the number of another row or column, beside which this one stands; otherwise 0
  /// of a plain number, 1 of a ratio, or such.
  bool other_cell = false;
  /// Whether it is zero of a number that cannot be less, such as a time: then the number has no
  /// direction.
  bool least = false;
};

/// A number of a paper, as the policy sees it.
struct Judged {
  Made made = Made::counted;
  double value = 0;
  std::string unit;
  double uncertainty = 0;  ///< with which it is printed or was read
  NoEffect no_effect = {};
};

/// How far a number may be off, and why.
struct Tolerance {
  double value = 0;
  std::string justification;
};

/// The tolerance of a number. What is counted: its uncertainty. Otherwise a part of it, or its
/// uncertainty where that is more, but for ratios; of a percentage a part of its distance to that
/// without effect. In any case at most half of the effect, |value − no effect|.
Tolerance tolerance(const Judged& number);

/// Sets tolerance, justification, what there would be without effect, and whether it is timed.
/// `stated` is a tolerance of this number alone: it counts where it is less than the policy's, and
/// not where it is more. Of what is timed at reduced size the direction is judged, and nothing else
/// of the number.
void judge(Comparison& number, const Judged& as, const std::optional<Tolerance>& stated = {});
/// Sets the relation of a number that judge() has seen; a direction stays one.
void set_relation(Comparison& number, Comparison::Relation relation);

/// Of what is so or not: passes, pairs in an order, cells where memory runs out. `chance`: how many
/// would be right without effect. `timed`: whether clocks decide it.
void judge_exact(Comparison& number, double chance, const std::string& justification,
                 bool timed = false);

/// What docs/verdicts.md says: all of the above in words.
std::string markdown();

}  // namespace frugal::experiments::policy
