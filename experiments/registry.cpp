#include "experiments/korthikanti2022/artifacts.h"
#include "experiments/mst2024/artifacts.h"
#include "experiments/pipedream2bw2021/artifacts.h"

namespace frugal {

std::vector<const Artifact*> all_artifacts() {
  namespace k = korthikanti2022;
  namespace m = mst2024;
  namespace p = pipedream2bw2021;
  std::vector<const Artifact*> all = {&k::table2(),        &k::figure7(),   &k::table4(),
                                      &k::section5(),      &k::table5(),    &k::figure8(),
                                      &k::data_parallel(), &k::figure1(),   &k::figure9(),
                                      &k::appendix_b(),    &k::appendix_c()};
  const auto add = [&](const std::vector<const Artifact*>& figures) {
    all.insert(all.end(), figures.begin(), figures.end());
  };
  add(p::timelines());
  add(p::throughputs());
  add(p::footprints());
  add({&p::figure8(), &p::figure9(), &p::figure12()});
  add(m::longest_sequences());
  add(m::anchors());
  add({&m::table6()});
  add(m::memory_in_peak());
  add(m::modules());
  return all;
}

}  // namespace frugal
