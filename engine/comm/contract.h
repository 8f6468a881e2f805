#pragma once
#include "engine/namespace.h"
#include "kernels/view.h"

/// Preconditions of a communicator's calls, checked by every implementation where a collective is
/// started. A breach is an error of the program:
/// std::invalid_argument, which names the collective and the views.
namespace frugal::engine::contract {

void summed(const char* collective, const View& data);
void gathered(const char* collective, const View& shard, const View& all, int ranks);
/// Check the operands of all_to_all(), and of shift().
void exchanged(const View& from, const View& to, int ranks);
void shifted(const View& from, const View& to);
void moved(const char* collective, const View& data);
void peer(const char* collective, int peer, int ranks);

}  // namespace frugal::engine::contract
