#include "experiments/on_gpus.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "experiments/artifacts.h"
#include "harness/calibrate/prediction.h"
#include "harness/measure/runs/training.h"
#include "tests/experiments/synthetic.h"

/// Pipelines of the papers on one GPU, whose stages run alone, beside the same pipelines with all
/// their stages: on a virtual machine both ways, whose numbers are the same.
namespace frugal::experiments {
namespace {

constexpr const char* machine_name = "h200-hgx";

TargetOptions place(const std::string& lone_rank) {
  Machine roomy = find_machine(machine_name);
  roomy.memory_capacity = roomy.host_memory = std::numeric_limits<int64_t>::max() / 2;
  TargetOptions options;
  options.on = std::string("virtual:") + machine_name;
  options.lone_rank = lone_rank;
  options.machine = roomy;
  if (!lone_rank.empty()) options.links = roomy;
  return options;
}
const Target& alone() {
  static const auto target = make_target(place(machine_name));
  return *target;
}
const Target& whole() {
  static const auto target = make_target(place(""));
  return *target;
}

Selection on_one_gpu() {
  return {.virtual_machine = false, .cpu = false, .cuda = GpuSelection{1, machine_name}};
}
const Selection virtually{.cpu = false, .programs = Programs::frugal};

void observe(Record& record, const Target& target) { observe_step_memory(target, record); }

const Cell& cell_like(const std::vector<Cell>& cells, const Cell& cell) {
  const auto found = std::ranges::find_if(cells, [&](const Cell& other) {
    return std::pair(other.row, other.column) == std::pair(cell.row, cell.column);
  });
  if (found == cells.end()) throw std::out_of_range(cell.row + ", " + cell.column);
  return *found;
}

TEST(OnGpus, MemoryOfStagesThatRanAloneIsThatOfTheWholePipeline) {
  const std::pair<const Artifact*, size_t> figures[] = {{&korthikanti2022::figure1(), 4 * 5},
                                                        {&korthikanti2022::figure9(), 2 * 3}};
  for (const auto& [figure, count] : figures) {
    const Records lone = records_of(*figure, on_one_gpu(), [](Record& r) { observe(r, alone()); });
    const auto all =
        figure->cells(records_of(*figure, virtually, [](Record& r) { observe(r, whole()); }));
    const std::vector<Cell> cells = figure->cells(lone);
    EXPECT_EQ(cells.size(), count);
    for (const Cell& cell : cells) {
      const Cell& same = cell_like(all, cell);
      EXPECT_EQ(cell.value.value(), same.value.value()) << cell.artifact << cell.row << cell.column;
      EXPECT_EQ(cell.paper, same.paper) << "bytes are those of the paper";
      EXPECT_EQ(cell.on, "cuda, lone rank on h200-hgx");
    }
  }
}

TEST(OnGpus, AStepThatDoesNotFitContradictsNoBar) {
  const Records none = records_of(korthikanti2022::figure1(), on_one_gpu(), [](Record& r) {
    r.status = Status::oom;
    r.reason = "12 GiB missing";
  });
  for (const Cell& cell : korthikanti2022::figure1().cells(none)) {
    EXPECT_EQ(cell.status, Status::oom) << cell.row << cell.column;
    EXPECT_FALSE(cell.paper) << cell.row << cell.column;
  }
  EXPECT_TRUE(korthikanti2022::figure1().claims(none).empty());
}

const Artifact& figure6a() { return *pipedream2bw2021::throughputs().front(); }

/// Trains each case of the smallest batch.
Records trained(const Artifact& artifact, const Selection& selection, const Target& target) {
  Records records;
  for (const Case& c : artifact.cases(selection)) {
    if (c.id.find("batch 64") == std::string::npos) continue;
    Record record = record_of(artifact, c);
    train({std::get<Training>(c.workload), c.config}, target, record,
          [](int64_t, const std::string&) {});
    records.add(std::move(record));
  }
  return records;
}

TEST(OnGpus, TimesPutTogetherFromStagesAreThoseOfTheWholePipeline) {
  const std::vector<Cell> all = figure6a().cells(trained(figure6a(), virtually, whole())),
                          cells = figure6a().cells(trained(figure6a(), on_one_gpu(), alone()));
  size_t times = 0, parts = 0;
  for (const Cell& cell : cells) {
    if (cell.status != Status::ok || !cell.value) continue;
    EXPECT_FALSE(cell.paper) << "these GPUs are not the paper's";
    EXPECT_TRUE(cell.interval) << cell.row;
    if (cell.unit == "s") {
      ++parts;
      continue;
    }
    ++times;
    EXPECT_NEAR(*cell.value / cell_like(all, cell).value.value(), 1, 0.01) << cell.row;
  }
  EXPECT_EQ(times, 6U);
  EXPECT_EQ(parts, 3U * 5) << "of all but tensor parallelism";
  EXPECT_TRUE(figure6a().claims(trained(figure6a(), on_one_gpu(), alone())).empty());
}

TEST(OnGpus, TrainingsTakeEnoughStepsForAnInterval) {
  size_t trainings = 0;
  for (const Case& first : figure6a().cases(on_one_gpu()))
    for (const Case* c = &first; c != nullptr; c = c->smaller.empty() ? nullptr : &c->smaller[0]) {
      EXPECT_EQ(c->on, "cuda") << c->id;
      EXPECT_EQ(c->lone_rank, machine_name) << c->id;
      EXPECT_EQ(std::get<Training>(c->workload).train.steps, steps_on_gpus) << c->id;
      ++trainings;
    }
  EXPECT_GT(trainings, figure6a().cases(on_one_gpu()).size());
  Selection many = on_one_gpu();
  many.cuda->count = 64;
  for (const Case& c : figure6a().cases(many)) EXPECT_EQ(c.lone_rank, "");
}

TEST(OnGpus, ArePredictedWithTheirPartsAndSmallerTries) {
  size_t smaller = 0;
  for (const Case& first : predicted_cases(figure6a(), find_machine(machine_name)))
    for (const Case* c = &first; c != nullptr; c = c->smaller.empty() ? nullptr : &c->smaller[0]) {
      EXPECT_EQ(c->on, std::string("virtual:") + machine_name) << c->id;
      EXPECT_EQ(c->lone_rank, c->config.pipeline_parallel > 1 ? machine_name : "") << c->id;
      smaller += c->smaller.size();
    }
  EXPECT_GT(smaller, 0U);
}

}  // namespace
}  // namespace frugal::experiments
