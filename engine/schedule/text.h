#pragma once
#include <string>

#include "engine/schedule/schedule.h"

namespace frugal {

/// One action as messages and files write it; microbatches, chunks and stages count from 0:
///   F3@1  B3@1  I3@1  W3@1   forward, backward, input and weight backward of microbatch 3, with
///                            version 1 of the weights
///   <F3  F3>                 what F3 needs arrives; what F3 made leaves
///   <B3  B3>                 the same of gradients
///   step@2                   makes version 2
/// With several chunks each names its own: F3.1@1, <F3.1.
std::string to_text(const Action& action, int chunks);

}  // namespace frugal
