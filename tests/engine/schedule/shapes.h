#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "engine/schedule/schedules.h"

namespace frugal::engine {

/// Calls `test` for every kind and every small shape that it allows.
inline void for_all_shapes(
    const std::function<void(ScheduleKind kind, const ScheduleShape& shape)>& test) {
  for (const ScheduleKind& kind : ScheduleKind::all())
    for (int stages = 1; stages <= 8; ++stages)
      for (const int microbatches : {1, 2, 3, 4, 5, 7, 8, 11, 12, 16})
        for (const int chunks : {1, 2, 3})
          for (const int batches : {1, 2, 5})
            for (const int first_batch : {0, 3}) {
              if (kind.has_chunks != (chunks > 1)) continue;
              if (kind.chunks > 0 && chunks != kind.chunks) continue;
              if (microbatches < kind.least_per_stage * stages) continue;
              const ScheduleShape shape = {.stages = stages,
                                           .chunks = chunks,
                                           .microbatches = microbatches,
                                           .first_batch = first_batch,
                                           .batches = batches};
              SCOPED_TRACE(fmt::format("{} stages {} chunks {} microbatches {} batches {} from {}",
                                       kind.name, stages, chunks, microbatches, batches,
                                       first_batch));
              test(kind, shape);
            }
}

}  // namespace frugal::engine
