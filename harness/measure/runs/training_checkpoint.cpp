#include "harness/measure/runs/training_checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "engine/train/distributed_model.h"
#include "harness/measure/interrupt.h"
#include "harness/place/processes.h"
#include "harness/settings/config_json.h"
#include "harness/settings/field.h"
#include "kernels/support/error.h"
#include "kernels/support/paths.h"

namespace frugal::harness {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view prefix = "step-";
constexpr size_t kept = 2;

/// Of whole checkpoints, from the first step's to the last's.
std::vector<fs::path> checkpoints_in(const fs::path& folder) {
  std::vector<fs::path> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(prefix) && entry.path().extension() != ".part")
      all.push_back(entry.path());
  }
  std::sort(all.begin(), all.end());
  return all;
}

[[noreturn]] void cannot_write(const fs::path& path, int error) {
  throw CannotWrite("--checkpoint: " + path.string(), error);
}

/// On the disk, whatever happens to the machine.
void sync_to_disk(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) cannot_write(path, errno);
  const int error = ::fsync(file) == 0 ? 0 : errno;
  ::close(file);
  if (error != 0 && error != EINVAL) cannot_write(path, error);  // some places cannot be synced
}

/// Removes a checkpoint where there is one. Its name goes first: what has one is whole.
void take_away(const fs::path& checkpoint) {
  const fs::path gone = checkpoint.string() + ".gone.part";
  std::error_code ignored;
  fs::remove_all(gone, ignored);
  fs::rename(checkpoint, gone, ignored);
  fs::remove_all(gone, ignored);
}

/// What a run that was killed has left unfinished.
void remove_parts(const fs::path& folder) {
  std::vector<fs::path> parts;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().filename().string().starts_with(prefix) && entry.path().extension() == ".part")
      parts.push_back(entry.path());
  for (const fs::path& part : parts) fs::remove_all(part, ignored);
}

/// "NAME SIZE HASH" of a file that this process has written.
std::string line_of(const fs::path& folder, const std::string& name) {
  const fs::path path = folder / name;
  sync_to_disk(path);
  return fmt::format("{} {} {}\n", name, fs::file_size(path), hash_of_files({path.string()}));
}

std::vector<TrainingCheckpoint::File> files_of(const std::vector<std::string>& lines_of_processes) {
  std::vector<TrainingCheckpoint::File> files;
  for (const std::string& lines : lines_of_processes) {
    std::istringstream words(lines);
    for (TrainingCheckpoint::File file; words >> file.name >> file.bytes >> file.hash;)
      files.push_back(file);
  }
  return files;
}

/// What has to be as it was for the losses to be those of one training: the model and what it is
/// trained on and by. How ranks share it may change.
json identity_of(const TrainingRun& run) {
  json identity = options_of(run, run.config);
  for (const char* free : {"steps", "eval_every", "last_words", "checkpoint_every", "weights",
                           "resumed", "schedule_file", "held_out_bytes_evaluated"})
    identity.erase(free);
  const json config = to_json(run.config);
  identity["model"] = config.at("model");
  identity["model"].erase("name");  // what it is called
  for (const Field& field : fields())
    if (field.section == Section::training && config.contains(field.key))
      identity[field.key] = config.at(field.key);
  identity.erase("microbatch_size");
  identity["global_batch_size"] = run.config.micro_batch * run.config.batch_microbatches();
  identity["schedule_delay"] = run.config.schedule.delay;
  return identity;
}

void check_identity(const TrainingCheckpoint& checkpoint, const TrainingRun& run) {
  const json now = identity_of(run);
  const json& then = checkpoint.identity;
  const auto refuse = [&](const std::string& key, const json& a, const json& b) {
    throw InputError(fmt::format(
        "--resume: {} is of a training whose {} is {}, and now it is {}; give the same, or another "
        "checkpoint",
        checkpoint.folder, key, a.dump(), b.dump()));
  };
  for (const auto& [key, value] : now.items()) {
    const json before = then.value(key, json());
    if (before == value) continue;
    if (!value.is_object() || !before.is_object()) refuse(key, before, value);
    for (const auto& [inner, each] : value.items())
      if (before.value(inner, json()) != each)
        refuse(fmt::format("{}'s {}", key, inner), before.value(inner, json()), each);
  }
}

/// "; --resume DIR/step-00000100 goes on from the one before"
std::string one_before(const fs::path& folder) {
  const std::vector<fs::path> all = checkpoints_in(folder.parent_path());
  const auto found = std::find(all.begin(), all.end(), folder);
  if (found == all.begin() || found == all.end()) return "; there is none before it";
  return fmt::format("; --resume {} goes on from the one before", (found - 1)->string());
}

void check_files(const TrainingCheckpoint& checkpoint) {
  for (const auto& [name, bytes, hash] : checkpoint.files) {
    const fs::path path = fs::path(checkpoint.folder) / name;
    const bool there = fs::is_regular_file(path);
    const bool same = there && static_cast<int64_t>(fs::file_size(path)) == bytes &&
                      hash_of_files({path.string()}) == hash;
    if (same) continue;
    throw InputError(fmt::format("--resume: {} {}{}", path.string(),
                                 there ? "is not as it was written" : "is missing",
                                 one_before(checkpoint.folder)));
  }
}

TrainingCheckpoint read_checkpoint(const fs::path& folder) {
  try {
    return read_manifest(folder.string());
  } catch (const InputError& error) {
    throw InputError(fmt::format("--resume: {}{}", error.what(), one_before(folder)));
  }
}

}  // namespace

int64_t steps_to_checkpoint(const TrainingRun& run, int64_t step) {
  if (run.checkpoint_every == 0) return run.train.steps - step;
  return run.checkpoint_every - step % run.checkpoint_every;
}

TrainingCheckpoints::TrainingCheckpoints(const TrainingRun& run) : run_(run) {
  if (!Processes::writes()) return;
  const fs::path folder = run.checkpoint;
  const auto goes_on = [&] {
    if (run.resume.empty()) return false;
    const fs::path from = fs::weakly_canonical(fs::path(run.resume) / ""),
                   to = fs::weakly_canonical(folder / "");
    return from == to || from.parent_path().parent_path() / "" == to;
  };
  if (const auto there = checkpoints_in(folder); !there.empty() && !goes_on())
    throw InputError(fmt::format(
        "--checkpoint: {} has checkpoints; give --resume {} to go on from the last, or choose "
        "another folder",
        folder.string(), folder.string()));
  lock_ = LineFile("--checkpoint", (folder / "lock").string());
  remove_parts(folder);
}

bool TrainingCheckpoints::due(int64_t step) const {
  return step == run_.train.steps ||
         (run_.checkpoint_every > 0 && step % run_.checkpoint_every == 0);
}

void TrainingCheckpoints::write(DistributedModel& model, Cluster& cluster, const Record& record,
                                int64_t step) {
  written_ = step;
  const fs::path whole = fs::path(run_.checkpoint) / fmt::format("{}{:08}", prefix, step);
  const fs::path part = whole.string() + ".part";
  std::error_code error;
  if (Processes::writes()) {
    if (!fs::create_directories(part, error) || error) cannot_write(part, error.value());
  }
  cluster.exchange("");  // the folder is there
  std::string lines;
  for (const std::string& name : model.save_state(part.string())) lines += line_of(part, name);
  const std::vector<std::string> of_processes = cluster.gather(lines);
  if (!Processes::writes()) return;
  json manifest =
      to_json(TrainingCheckpoint{.folder = whole.string(),
                                 .step = step,
                                 .identity = identity_of(run_),
                                 .files = files_of(of_processes),
                                 .losses = record.losses,
                                 .gradient_norms = record.samples(metric::gradient_norm),
                                 .held_out = record.held_out});
  manifest["configuration"] = to_json(run_.config);
  manifest["program"] = program_hash();
  std::ofstream out(part / manifest_name);
  if (!(out << manifest.dump(1) << std::endl)) cannot_write(part, errno);
  out.close();
  sync_to_disk(part / manifest_name);
  sync_to_disk(part);
  take_away(whole);  // the same step's, of a run that got farther than the one it went on from
  fs::rename(part, whole, error);
  if (error) cannot_write(whole, error.value());
  sync_to_disk(run_.checkpoint);
  keep_the_last();
}

void TrainingCheckpoints::stop_if_interrupted(DistributedModel& model, Cluster& cluster,
                                              Record& record, int64_t step) {
  const std::vector<std::string> asked = cluster.exchange(interrupt_requested() ? "yes" : "");
  if (std::all_of(asked.begin(), asked.end(), [](const auto& each) { return each.empty(); }))
    return;
  if (step != written_) write(model, cluster, record, step);
  cluster.exchange("");  // it is whole: who stops now ends all
  record.reason = fmt::format(
      "stopped by a signal behind step {}, which is in a checkpoint; --resume goes on from it",
      step);
  std::string how = "the same command";
  if (run_.resume != run_.checkpoint) how += fmt::format(" with --resume {}", run_.checkpoint);
  if (run_.resume != run_.checkpoint && !run_.resume.empty())
    how += fmt::format(" in place of {}", run_.resume);
  throw Kept(fmt::format("interrupted behind step {}, which is kept in {}; {} goes on from there",
                         step, run_.checkpoint, how));
}

void TrainingCheckpoints::keep_the_last() const {
  const std::vector<fs::path> all = checkpoints_in(run_.checkpoint);
  for (size_t i = 0; i + kept < all.size(); ++i) take_away(all[i]);
}

TrainingCheckpoint find_checkpoint(const TrainingRun& run) {
  fs::path folder = run.resume;
  if (!folder.has_filename()) folder = folder.parent_path();
  if (!is_there(folder / manifest_name)) {
    const std::vector<fs::path> all = checkpoints_in(folder);
    if (all.empty())
      throw InputError(fmt::format(
          "--resume: there is no checkpoint in {}; give a folder that --checkpoint wrote",
          run.resume));
    folder = all.back();
  }
  TrainingCheckpoint found = read_checkpoint(folder);
  check_files(found);
  check_identity(found, run);
  if (found.step >= run.train.steps)
    throw InputError(fmt::format("--resume: {} is behind step {}, and --steps is {}; give more",
                                 found.folder, found.step, run.train.steps));
  return found;
}

void resume(const TrainingCheckpoint& checkpoint, DistributedModel& model, Record& record) {
  std::vector<std::string> files;
  for (const TrainingCheckpoint::File& file : checkpoint.files)
    files.push_back((fs::path(checkpoint.folder) / file.name).string());
  model.load_state(StoredState(files), checkpoint.step);
  record.losses = checkpoint.losses;
  record.held_out = checkpoint.held_out;
  for (const double norm : checkpoint.gradient_norms)
    record.add_sample(metric::gradient_norm, "1", norm);
}

}  // namespace frugal::harness
