#pragma once
#include "harness/artifact.h"

namespace frugal::korthikanti2022 {

const Artifact& table2();
const Artifact& figure7();
const Artifact& table4();
const Artifact& section5();
const Artifact& table5();
const Artifact& figure8();
const Artifact& data_parallel();
const Artifact& figure1();
const Artifact& figure9();
const Artifact& appendix_b();
const Artifact& appendix_c();

}  // namespace frugal::korthikanti2022
