#pragma once
#include <string>

#include "engine/schedule/schedule.h"

namespace frugal::engine {

/// One action as messages and files write it; microbatches, chunks and stages count from 0:
///   F3@1  B3@1  I3@1  W3@1   forward, backward, input and weight backward of microbatch 3, with
///                            version 1 of the weights
///   <F3  F3>                 what F3 needs arrives; what F3 made leaves
///   <B3  B3>                 the same of gradients
///   step@2                   makes version 2
/// With several chunks each names its own: F3.1@1, <F3.1. Two passes that are made together have a
/// "&" between them.
std::string to_text(const Action& action, int chunks);

/// A schedule as a file that can be read and compared line by line: a header of the schedule's
/// members, and for each stage one line for each pass with its messages, in order.
std::string to_text(const Schedule& schedule);

/// The inverse; "#" begins a comment, and where a stage's lines end means nothing. `name` stands
/// for the file. Throws InputError that names the line, what stands there and what is allowed, or
/// the rule that the header's shape breaks. Whether the schedule is right is check()'s to say.
Schedule schedule_from_text(std::string_view text, const std::string& name);

}  // namespace frugal::engine
