#include "harness/compare/ratio.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "harness/compare/signed_rank.h"

namespace frugal::harness {
namespace {

using Random = std::mt19937_64;

double median_of_resampled(const std::vector<double>& samples, Random& random) {
  std::vector<double> drawn(samples.size());
  for (double& x : drawn) x = samples[random() % samples.size()];
  return median(drawn);
}

/// Of the processes of these numbers.
double resampled(const ProcessSamples& processes, const std::vector<size_t>& drawn,
                 Random& random) {
  std::vector<double> medians;
  for (const size_t i : drawn) medians.push_back(median_of_resampled(processes[i], random));
  return median(medians);
}

std::vector<size_t> draw(size_t count, Random& random) {
  std::vector<size_t> drawn(count);
  for (size_t& i : drawn) i = random() % count;
  return drawn;
}

void check(const ProcessSamples& base, const ProcessSamples& candidate) {
  for (const ProcessSamples* side : {&base, &candidate})
    if (side->empty() ||
        std::any_of(side->begin(), side->end(), [](const auto& one) { return one.empty(); }))
      throw std::invalid_argument("a ratio of medians needs samples of every process");
}

}  // namespace

std::vector<double> medians_of(const ProcessSamples& processes) {
  std::vector<double> medians;
  for (const std::vector<double>& samples : processes) medians.push_back(median(samples));
  return medians;
}

Estimate ratio_of_medians(const ProcessSamples& base, const ProcessSamples& candidate,
                          const Bootstrap& bootstrap) {
  check(base, candidate);
  const size_t fewest = std::min(base.size(), candidate.size());
  Estimate estimate{
      median(medians_of(candidate)) / median(medians_of(base)), {}, static_cast<int>(fewest)};
  if (fewest < interval_minimum) return estimate;
  Random random(bootstrap.seed);
  std::vector<double> ratios;
  for (int i = 0; i < bootstrap.resamples; ++i) {
    const std::vector<size_t> of_base = draw(base.size(), random);
    const std::vector<size_t> of_candidate = draw(candidate.size(), random);
    ratios.push_back(resampled(candidate, of_candidate, random) / resampled(base, of_base, random));
  }
  const double tail = (1 - bootstrap.level) / 2;
  estimate.interval = {quantile(ratios, tail), quantile(ratios, 1 - tail)};
  return estimate;
}

std::vector<double> log_ratios_of_turns(const ProcessSamples& base,
                                        const ProcessSamples& candidate) {
  check(base, candidate);
  if (base.size() != candidate.size()) throw std::invalid_argument("turns are pairs of processes");
  std::vector<double> logarithms;
  for (size_t i = 0; i < base.size(); ++i)
    logarithms.push_back(std::log(median(candidate[i]) / median(base[i])));
  return logarithms;
}

Estimate ratio_of_turns(std::span<const double> log_ratios) {
  Estimate ratio = center_of(log_ratios);
  ratio.value = std::exp(ratio.value);
  if (ratio.interval)
    ratio.interval = {std::exp(ratio.interval->low), std::exp(ratio.interval->high)};
  return ratio;
}

}  // namespace frugal::harness
