#include "kernels/table/run_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

namespace frugal::kernels::table {
namespace {

constexpr int64_t guard = 64;
constexpr auto guard_byte = static_cast<std::byte>(0xA5);

/// One operand's memory on the device, between guards.
class Placed {
 public:
  Placed(Device& device, const Operand& operand, const std::vector<double>& values, int64_t shift)
      : device_(device),
        begin_(guard + shift * size_of(operand.type)),
        bytes_(operand.shape.size() * size_of(operand.type)),
        total_(begin_ + bytes_ + guard),
        data_(device.allocate(total_)) {
    std::vector<std::byte> host(static_cast<size_t>(total_), guard_byte);
    store(operand.type, values, host.data() + begin_);
    device.copy_from_host(whole(), host.data());
    view_ = View(static_cast<char*>(data_) + begin_, operand.type, operand.shape);
  }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;
  ~Placed() { device_.deallocate(data_, total_); }

  const View& view() const { return view_; }

  /// The operand's bytes; notes where a guard is not what it was.
  std::vector<std::byte> read(const std::string& name, AfterRun& after) const {
    std::vector<std::byte> host(static_cast<size_t>(total_));
    device_.copy_to_host(host.data(), whole());
    const auto intact = [](std::byte b) { return b == guard_byte; };
    if (!std::all_of(host.begin(), host.begin() + begin_, intact))
      after.overwritten.push_back("before " + name);
    if (!std::all_of(host.end() - guard, host.end(), intact))
      after.overwritten.push_back("behind " + name);
    return {host.begin() + begin_, host.begin() + begin_ + bytes_};
  }

 private:
  View whole() const { return {data_, DType::u8, {total_}}; }

  Device& device_;
  int64_t begin_, bytes_, total_;
  void* data_;
  View view_;
};

}  // namespace

AfterRun run_guarded_case(Device& device, const Case& test_case, const Values& before,
                          const Layout& layout) {
  std::map<std::string, std::unique_ptr<Placed>> placed;
  std::map<std::string, std::string> shared;
  if (layout.share_aliases) shared.insert(test_case.aliases.begin(), test_case.aliases.end());
  Views views;
  for (const Operand& operand : test_case.operands) {
    if (shared.contains(operand.name)) continue;
    placed[operand.name] =
        std::make_unique<Placed>(device, operand, before.at(operand.name), layout.shift);
    views.set(operand.name, placed[operand.name]->view());
  }
  for (const auto& [output, input] : shared) views.set(output, views[input]);
  device.execute(test_case.bind(views));
  device.synchronize();
  AfterRun after;
  for (const auto& [name, memory] : placed) after.memory[name] = memory->read(name, after);
  for (const auto& [output, input] : shared) after.memory[output] = after.memory[input];
  return after;
}

Values values_of(const Case& test_case, const Memory& memory) {
  Values values;
  for (const Operand& operand : test_case.operands) {
    values[operand.name] = load(operand.type, memory.at(operand.name).data(), operand.shape.size());
  }
  return values;
}

std::optional<std::string> disagreement(const Case& test_case, const Expected& expected,
                                        const Values& actual) {
  for (const Operand& operand : test_case.operands) {
    const double u = unit_roundoff(accumulation_type(operand.type));
    const std::vector<double>& wanted = expected[operand.name];
    const std::vector<double>& scale = expected.scale(operand.name);
    const std::vector<double>& found = actual.at(operand.name);
    int64_t wrong = 0, worst = 0;
    double worst_excess = 0;
    for (int64_t i = 0; i < operand.shape.size(); ++i) {
      const auto at = static_cast<size_t>(i);
      const double want = wanted[at], got = found[at];
      const double nearest = round_to(operand.type, want);
      if (got == nearest || (std::isnan(got) && std::isnan(nearest))) continue;
      const double allowed =
          operand.role == Role::input || test_case.roundings == 0
              ? 0
              : test_case.roundings * u * scale[at] +
                    test_case.storage_roundings * unit_roundoff(operand.type) * std::abs(want);
      const double error = std::abs(got - want);
      if (error <= allowed) continue;
      ++wrong;
      const double excess = std::isfinite(error) ? error / allowed : INFINITY;
      if (wrong == 1 || excess > worst_excess) worst = i, worst_excess = excess;
    }
    if (wrong > 0) {
      const auto at = static_cast<size_t>(worst);
      return fmt::format(
          "{} ({}): {} of {} elements differ; the worst is [{}]: {} instead of {}, {:.3g} times "
          "the "
          "allowed error",
          operand.name, name_of(operand.type), wrong, operand.shape.size(), worst, found[at],
          wanted[at], worst_excess);
    }
  }
  return std::nullopt;
}

}  // namespace frugal::kernels::table
