#pragma once
#include <array>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config.h"
#include "engine/memory/ledger.h"
#include "engine/train/step_work.h"
#include "harness/record/cell.h"
#include "harness/record/gpu_load.h"
#include "harness/record/rank_statistics.h"

namespace frugal::harness {

/// Samples of one quantity in the order in which they were taken.
struct Metric {
  std::string unit;  ///< "s"
  std::vector<double> samples;
};

/// Keys of Record::files.
namespace file_key {
inline constexpr const char* machine = "machine";
inline constexpr const char* links = "links";
inline constexpr const char* schedule = "schedule";
}  // namespace file_key

/// Names of metrics; in JSON as they are here.
namespace metric {
inline constexpr const char* forward_time = "forward_time";
inline constexpr const char* backward_time = "backward_time";
inline constexpr const char* step_time = "step_time";
/// Parts from which a step's time was put together, where stages ran alone (LoneStages).
inline constexpr const char* computation_time = "computation_time";
inline constexpr const char* communication_time = "communication_time";
inline constexpr const char* bubble_time = "bubble_time";
inline constexpr const char* time = "time";  ///< of one execution of what a benchmark times
inline constexpr const char* work = "work";  ///< FLOPs or bytes of one execution
/// Executions of each block of a steady state, of which each time is a mean.
inline constexpr const char* executions = "executions";
inline constexpr const char* joules_per_token = "joules_per_token";  ///< of all GPUs of the run
inline constexpr const char* longest_sequence = "longest_sequence";  ///< LongestSequence
inline constexpr const char* lengths_refused = "longer_lengths_refused";  ///< LongestSequence
inline constexpr const char* gradient_norm = "gradient_norm";             ///< before clipping
inline constexpr const char* last_word_accuracy = "last_word_accuracy";   ///< LastWords
inline constexpr const char* last_letter_accuracy = "last_word_letter_accuracy";  ///< LastWords
}  // namespace metric

/// Memory of one stage of a pipeline, its first rank's; what older records do not have is 0.
struct StageMemory {
  BytesPerKind at_peak{};        ///< what each kind held at the moment of the peak
  int64_t peak = 0;              ///< bytes in use at the moment there were most
  BytesPerKind peak_per_kind{};  ///< each kind's own peak
  int64_t peak_in_layers = 0;    ///< that of activations, those outside the layers left out
  BytesPerKind held{};           ///< when the last step has ended: what stays from step to step
  HeldPerPart kept{};            ///< what the first forward pass kept for its backward pass
};

struct Memory {
  std::optional<BytesPerKind> after_forward;  ///< kept for the backward pass; a module alone only
  BytesPerKind peak{};                        ///< each kind's own peak
  int64_t peak_total = 0;                     ///< bytes in use at the moment there were most
  /// What the device held for all this at the end, what it keeps to hand out again included; none
  /// where memory is only counted, and in records that are older than this.
  std::optional<int64_t> reserved = {};
  int64_t host_peak = 0;  ///< bytes of the host's memory that a device's rank had at most
  /// One without a pipeline; the rest is the stage's that has most.
  std::vector<StageMemory> stages = {};
};

/// Memory of the stage that takes most; a Memory has at least one stage.
const StageMemory& fullest_stage(const Memory& memory);

/// Memory that a case needs that ran out of it, counted on a virtual machine that has as much as
/// the case takes, beside the memory that there was.
struct Needed {
  std::string on;  ///< that machine: "virtual:h100-dgx"
  Memory memory = {};
  int64_t capacity = 0;  ///< bytes that a rank could take
  /// Bytes of a rank's part of the host's memory; none where that is not known.
  std::optional<int64_t> host_capacity = {};
};

/// All ranks together, per forward and backward pass or per step. What the numbers were computed
/// from is part of them.
struct Flops {
  double model = 0;
  std::string model_formula;  ///< "korthikanti2022/eq7"
  double hardware = 0;        ///< matrix multiplications, recomputed ones too
  std::string hardware_formula = "executed";
  std::optional<double> hardware_eq8;  ///< as the paper prints them; selective recomputation only
};

/// A fraction of a peak (1 = all of it), or why it is not known.
struct Fraction {
  std::optional<double> value;
  std::string reason;
};

struct Utilization {
  std::optional<double> data_sheet_peak, measured_peak;  ///< FLOP/s, all devices
  Fraction mfu_data_sheet, mfu_measured, hfu_data_sheet, hfu_measured;
  /// Fractions of the data sheet's peak at the mean clock that the GPUs had (Record::gpu_load):
  /// what their power and heat left of it. Only in records of GPUs.
  struct AtClock {
    std::optional<double> peak;  ///< FLOP/s, all devices
    Fraction mfu, hfu;
  };
  std::optional<AtClock> at_clock = {};
};

/// Where one rank ran without its peers: the machine to whose links collectives were charged.
struct ModelledCommunication {
  std::string machine;  ///< "h200-hgx", or "NAME#HASH" (harness/place/target.h)
  std::string hash;     ///< hash_of() its values

  /// Why there are no losses and no gradient norms.
  static constexpr const char* left_out =
      "one rank ran without its peers: what they would have sent is its own data, so that losses, "
      "held-out losses and gradient norms mean nothing and are left out";
};

/// Stages of a pipeline that ran one after the other, one rank of each without its peers, and
/// step times were put together in the order of the schedule (engine/plan/lone_stage.h).
struct LoneStages {
  /// Stages that ran, from 0; the others have the same parts of the model as one of them.
  std::vector<int> stages;

  /// A part of a step's time, and its source where the device is real.
  struct Part {
    const char* metric;
    const char* source;
  };
  static constexpr std::array<Part, 3> parts = {{{metric::computation_time, "measured"},
                                                 {metric::communication_time, "modelled"},
                                                 {metric::bubble_time, "walked"}}};
};

/// Record::options of a lone rank on GPUs, and its value where what stands for a collective takes
/// multiprocessors and bandwidth as one would at most.
inline constexpr const char *collective_load = "collective_load", *collective_load_all = "all";

/// Where a record's `device` says that the other ranks were absent.
inline constexpr const char* one_rank_of = "; one rank of ";

/// 16 hexadecimal digits (FNV-1a, 64 bits), the same on every machine.
std::string hash_of(std::string_view bytes);
/// hash_of() what these files hold together, which need not fit memory.
std::string hash_of_files(const std::vector<std::string>& paths);
/// hash_of() this program's own file: another build, even of uncommitted code, is another program.
const std::string& program_hash();

/// What one case gave: the unit of evidence (docs/records.md). A line of records.jsonl.
struct Record {
  static constexpr const char* schema = "frugal.record/1";

  std::string artifact;  ///< "korthikanti2022/table4", or "measure"
  std::string case_id;   ///< within the artifact: "22B/baseline"
  std::string what;      ///< what_of() the case: "layer_time", "training"
  Source source = Source::simulated;
  std::string on;                                 ///< "cpu", "cuda", "virtual:a100-selene"
  std::string device;                             ///< what that is, in words
  std::optional<ModelledCommunication> modelled;  ///< none: as real as the device is
  std::optional<LoneStages> lone_stages = {};     ///< none: all stages ran together
  int64_t scale = 1;                              ///< k of 1/k; `config` is already scaled
  RunConfig config;     ///< empty where a benchmark times no model (has_configuration)
  std::string machine;  ///< Target::machine_hash(); empty without a description
  std::string program = program_hash();  ///< that ran the case
  std::string fingerprint;               ///< of all that decides the result; what resuming compares
  /// Which interleaved timing this is part of: samples of two records were taken in the same rounds
  /// where this is the same. Empty where nothing was interleaved.
  std::string rounds;
  /// Seed from which the order of the cases in each of these rounds was drawn (RoundOrder); none in
  /// records that are older, and where nothing was interleaved.
  std::optional<uint32_t> order_seed = {};

  Status status = Status::ok;
  std::string reason;
  std::map<std::string, Metric> metrics;
  /// What was found that is no number, in words: the configuration that is the fastest, say.
  std::map<std::string, std::string> findings;
  std::optional<Memory> memory;
  /// Need of a training or a module that ran out of memory; none in records that are older.
  std::optional<Needed> needed;
  std::optional<Flops> flops;
  /// Work of a training step, or of a module's both passes; none in records that are older.
  std::optional<StepWork> work;
  std::optional<Utilization> utilization;
  /// Load of the GPUs meanwhile; none elsewhere, and in records that are older.
  std::optional<GpuLoads> gpu_load;
  /// Statistics of ranks that note how long they wait: threads and processes of the cpu.
  std::optional<RankStatistics> ranks;
  std::vector<double> losses;                        ///< of each training step
  std::vector<std::pair<int64_t, double>> held_out;  ///< (step, loss)
  std::map<std::string, std::string> options;        ///< other settings, such as the learning rate
  /// Texts of the files that decided the result and that no program has: those of the virtual
  /// machine or data sheet, of the machine of modelled communication, and of a schedule.
  std::map<std::string, std::string> files;

  std::string command;         ///< reproduces it
  std::string started, ended;  ///< UTC, ISO 8601
  std::string environment;     ///< JSON object (harness/place/environment.h)

  bool ok() const { return status == Status::ok; }
  /// Samples of a metric; empty where it was not taken.
  const std::vector<double>& samples(const std::string& name) const;
  void add_sample(const std::string& name, const char* unit, double value);
};

/// Whether a configuration is one: it has a model.
inline bool has_configuration(const RunConfig& config) { return config.model.layers > 0; }

/// The commit of the program that made it: "abfdc4d80a98 with changes", or "unknown".
std::string build_of(const Record& record);

nlohmann::json to_json(const Record& record);
/// One alone is an object, several are an array.
nlohmann::json to_json(const std::vector<Record>& records);
/// Throws InputError that says what is missing or wrong, and in which file and line (`name`).
Record record_from_json(const nlohmann::json& json, const std::string& name);

/// hash_of() what, on, device, machine, modelled communication, program, scale, configuration and
/// options.
std::string fingerprint_of(const Record& record);

/// Where an artifact's cases ran.
struct Setting {
  Source source = Source::simulated;
  std::string on;
  int64_t scale = 1;
  int threads = 0;           ///< of the processor; 0 where the result does not depend on them
  std::string links = {};    ///< ModelledCommunication::machine; empty where communication is real
  std::string program = {};  ///< whose behaviour the runs had; empty: none but frugal's own
  bool loaded = false;       ///< whether lone ranks' collectives took all that they could
  bool operator==(const Setting&) const = default;

  /// Name in tables: "cuda", "cuda, lone rank on h200-hgx", "cuda, lone rank on h200-hgx,
  /// loaded", "virtual:a100-selene as megatron-lm-2022". So numbers with modelled communication, or
  /// of another program, never stand in a column with others.
  std::string where() const;
};

Setting setting_of(const Record& record);
/// Source of a part of the record's steps: on a virtual machine, computation is virtual.
std::string_view source_of(const Record& record, const LoneStages::Part& part);

/// The records that cells and claims are made from.
class Records {
 public:
  void add(Record record) { records_.push_back(std::move(record)); }
  const std::vector<Record>& all() const { return records_; }

  /// Each setting in which an artifact has records, once, in the order of the first.
  std::vector<Setting> settings(const std::string& artifact) const;
  /// The last record of a case, or null where it was not run. Records that other programs, machines
  /// or rounds than the setting's last one left behind do not count: all that is found in a setting
  /// can be compared.
  const Record* find(const std::string& artifact, const std::string& case_id,
                     const Setting& setting) const;

 private:
  std::vector<Record> records_;
};

}  // namespace frugal::harness
