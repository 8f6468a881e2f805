#include "harness/record/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/settings/config_json.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {

const std::vector<double>& Record::samples(const std::string& name) const {
  static const std::vector<double> none;
  const auto found = metrics.find(name);
  return found == metrics.end() ? none : found->second.samples;
}

void Record::add_sample(const std::string& name, const char* unit, double value) {
  Metric& metric = metrics[name];
  metric.unit = unit;
  metric.samples.push_back(value);
}

const StageMemory& fullest_stage(const Memory& memory) {
  return *std::ranges::max_element(memory.stages, {}, &StageMemory::peak);
}

namespace {

/// FNV-1a, from what the bytes before gave on.
uint64_t hashed(std::string_view bytes, uint64_t hash = 0xcbf29ce484222325) {
  for (const char c : bytes) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return hash;
}

}  // namespace

std::string hash_of(std::string_view bytes) { return fmt::format("{:016x}", hashed(bytes)); }

std::string hash_of_files(const std::vector<std::string>& paths) {
  uint64_t hash = hashed({});
  std::vector<char> bytes(1 << 20);
  for (const std::string& path : paths) {
    std::ifstream in(path, std::ios::binary);
    do {
      in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      hash = hashed({bytes.data(), static_cast<size_t>(in.gcount())}, hash);
    } while (in);
  }
  return fmt::format("{:016x}", hash);
}

const std::string& program_hash() {
  static const std::string hash = hash_of(read_text("/proc/self/exe"));
  return hash;
}

std::string build_of(const Record& record) {
  nlohmann::json build = nlohmann::json::parse(record.environment)["build"];
  if (!build["commit"].is_string()) return "unknown";
  return build["commit"].get<std::string>().substr(0, 12) +
         (build["dirty"] == true ? " with changes" : "");
}

std::string fingerprint_of(const Record& record) {
  const nlohmann::json decides = {record.what,
                                  record.on,
                                  record.device,
                                  record.machine,
                                  record.modelled ? record.modelled->hash : "",
                                  record.program,
                                  record.scale,
                                  to_json(record.config),
                                  record.options};
  return hash_of(decides.dump());
}

std::string Setting::where() const {
  const std::string as = program.empty() ? on : fmt::format("{} as {}", on, program);
  return links.empty() ? as
                       : fmt::format("{}, lone rank on {}{}", as, links, loaded ? ", loaded" : "");
}

Setting setting_of(const Record& record) {
  Setting setting{record.source, record.on, record.scale};
  if (record.modelled) setting.links = record.modelled->machine;
  setting.program = record.config.program.name;
  if (const auto load = record.options.find(collective_load); load != record.options.end())
    setting.loaded = load->second == collective_load_all;
  if (const auto found = record.options.find("threads"); found != record.options.end()) {
    const std::string& text = found->second;
    std::from_chars(text.data(), text.data() + text.size(), setting.threads);
  }
  return setting;
}

std::string_view source_of(const Record& record, const LoneStages::Part& part) {
  return std::string_view(part.metric) == metric::computation_time ? name_of(record.source)
                                                                   : part.source;
}

namespace {

/// The device without the number of ranks that were absent: cases of a setting may differ in it.
std::string_view hardware(const Record& record) {
  return std::string_view(record.device).substr(0, record.device.find(one_rank_of));
}

std::string_view links(const Record& record) {
  return record.modelled ? record.modelled->hash : std::string_view();
}

/// Whether what two records of a setting say can be compared.
bool comparable(const Record& a, const Record& b) {
  return a.program == b.program && hardware(a) == hardware(b) && links(a) == links(b) &&
         a.machine == b.machine && a.rounds == b.rounds;
}

}  // namespace

std::vector<Setting> Records::settings(const std::string& artifact) const {
  std::vector<Setting> settings;
  for (const Record& record : records_) {
    const Setting setting = setting_of(record);
    if (record.artifact == artifact &&
        std::find(settings.begin(), settings.end(), setting) == settings.end())
      settings.push_back(setting);
  }
  return settings;
}

const Record* Records::find(const std::string& artifact, const std::string& case_id,
                            const Setting& setting) const {
  const Record* newest = nullptr;  // of the setting
  for (size_t i = records_.size(); i-- > 0;) {
    const Record& record = records_[i];
    if (record.artifact != artifact || setting_of(record) != setting) continue;
    if (newest == nullptr) newest = &record;
    if (record.case_id == case_id) return comparable(record, *newest) ? &record : nullptr;
  }
  return nullptr;
}

}  // namespace frugal::harness
