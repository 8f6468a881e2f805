#include "experiments/korthikanti2022/artifacts.h"

namespace frugal {

std::vector<const Artifact*> all_artifacts() {
  namespace k = korthikanti2022;
  return {&k::table2(),  &k::figure7(), &k::table4(),     &k::section5(),  &k::table5(),
          &k::figure1(), &k::figure9(), &k::appendix_b(), &k::appendix_c()};
}

}  // namespace frugal
