#include "harness/import/launcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <string_view>

namespace frugal::harness {
namespace {

using Words = std::vector<std::string>;
using Variable = std::function<std::string(const std::string&)>;

constexpr int64_t most_launched = 1 << 24;

/// The words of one launcher, from its name to that of the next.
class Launcher {
 public:
  Launcher(std::string name, Words words) : name_(std::move(name)), words_(std::move(words)) {}

  const std::string& name() const { return name_; }
  /// Value behind one of these options; hyphens and underscores in their names are alike.
  std::optional<std::string> value(std::initializer_list<std::string_view> options) const {
    for (size_t i = 0; i < words_.size(); ++i)
      for (const std::string_view option : options) {
        std::string word = words_[i];
        const size_t named = std::min(word.find('='), word.size());
        if (word.starts_with("--"))
          std::replace(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(named), '_', '-');
        if (word == option && i + 1 < words_.size()) return words_[i + 1];
        if (named < word.size() && word.substr(0, named) == option) return word.substr(named + 1);
        const bool letter = option.size() == 2 && word.size() > 2 && word.starts_with(option);
        if (letter && count_in(word.substr(2))) return word.substr(2);  // "-n8"
      }
    return std::nullopt;
  }
  bool has(std::initializer_list<std::string_view> options) const {
    return value(options).has_value();
  }
  StartedRanks lacks(std::string_view option) const {
    return {{}, fmt::format("{} has no {}", name_, option)};
  }
  /// The product of what stands behind options, each of which is there.
  StartedRanks product(const std::vector<std::pair<std::string, std::string>>& factors) const {
    int64_t ranks = 1;
    for (const auto& [option, text] : factors) {
      const auto count = count_in(text);
      if (!count || *count > most_launched / ranks)
        return {{}, fmt::format("{} of {} is {}", option, name_, text)};
      ranks *= *count;
    }
    return {ranks, {}};
  }

 private:
  std::string name_;
  Words words_;
};

std::vector<Launcher> launchers_in(const Words& words) {
  std::vector<Launcher> all;
  std::string name;
  Words own;
  const auto end = [&] {
    if (!name.empty()) all.emplace_back(name, own);
    own.clear();
  };
  for (const std::string& word : words) {
    const std::string called = word.substr(word.rfind('/') + 1);
    if (called == "torchrun" || called == "deepspeed" || called == "mpirun" ||
        called == "mpiexec" || called == "srun" || called == "accelerate" ||
        word == "torch.distributed.run" || word == "torch.distributed.launch") {
      end();
      name = called;
    } else {
      own.push_back(word);
    }
  }
  end();
  return all;
}

/// Ranks that srun starts, by its own options, and else by what sbatch was told.
StartedRanks tasks_of_srun(const Launcher& srun, const Variable& variable) {
  const auto said = [&](std::optional<std::string> option, const char* name) {
    const std::string set = option ? *option : variable(name);
    return set.empty() ? std::nullopt : std::optional(set);
  };
  if (const auto tasks = srun.value({"-n", "--ntasks"}))
    return srun.product({{"--ntasks", *tasks}});
  const auto own_nodes = srun.value({"-N", "--nodes"});
  const auto own_each = srun.value({"--ntasks-per-node"});
  const std::string tasks = variable("SLURM_NTASKS");
  if (!own_nodes && !own_each && !tasks.empty()) return srun.product({{"SLURM_NTASKS", tasks}});
  const auto nodes = said(own_nodes, "SLURM_NNODES");
  const auto each = said(own_each, "SLURM_NTASKS_PER_NODE");
  if (!nodes) return srun.lacks("--ntasks, nor --nodes with --ntasks-per-node");
  if (!each) return srun.lacks("--ntasks or --ntasks-per-node");
  return srun.product({{"--nodes", *nodes}, {"--ntasks-per-node", *each}});
}

/// Ranks that torchrun starts. Another launcher, `around`, may start it on each node.
StartedRanks ranks_of_torchrun(const Launcher& torchrun, const Launcher* around,
                               const Variable& variable) {
  const auto each = torchrun.value({"--nproc-per-node"});
  if (!each) return torchrun.lacks("--nproc-per-node");
  if (const auto nodes = torchrun.value({"--nnodes"}))
    return torchrun.product({{"--nproc-per-node", *each}, {"--nnodes", *nodes}});
  StartedRanks alone = torchrun.product({{"--nproc-per-node", *each}});
  if (around == nullptr) return alone;  // one node, torchrun's default
  const auto nodes = around->name() == "srun" ? tasks_of_srun(*around, variable).ranks
                                              : count_in(around->value({"-n", "-np"}).value_or(""));
  return nodes == 1 ? alone : torchrun.lacks("--nnodes");
}

}  // namespace

std::optional<int64_t> count_in(const std::string& text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end && value > 0 ? std::optional(value) : std::nullopt;
}

StartedRanks started_ranks(const Words& words, const Variable& variable) {
  const std::vector<Launcher> all = launchers_in(words);
  if (all.empty()) return {};
  const Launcher& last = all.back();
  const std::string& name = last.name();
  if (name == "srun") return tasks_of_srun(last, variable);
  if (name == "mpirun" || name == "mpiexec") {
    const auto tasks = last.value({"-n", "-np", "--np", "-c"});
    return tasks ? last.product({{"-n", *tasks}}) : last.lacks("-n");
  }
  if (name == "accelerate") {
    const auto ranks = last.value({"--num-processes"});
    return ranks ? last.product({{"--num_processes", *ranks}}) : last.lacks("--num_processes");
  }
  if (name == "deepspeed") {
    const auto each = last.value({"--num-gpus"}), nodes = last.value({"--num-nodes"});
    if (!each) return last.lacks("--num_gpus");
    if (!nodes && last.has({"-H", "--hostfile", "-i", "--include", "-e", "--exclude"}))
      return last.lacks("--num_nodes");
    return last.product({{"--num_gpus", *each}, {"--num_nodes", nodes.value_or("1")}});
  }
  return ranks_of_torchrun(last, all.size() > 1 ? &all[all.size() - 2] : nullptr, variable);
}

}  // namespace frugal::harness
