#include "harness/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/config_json.h"

namespace frugal {

const std::vector<double>& Record::samples(const std::string& name) const {
  static const std::vector<double> none;
  const auto found = metrics.find(name);
  return found == metrics.end() ? none : found->second.samples;
}

std::string fingerprint_of(const Record& record) {
  const nlohmann::json decides = {
      record.what, record.on, record.device, record.scale, to_json(record.config), record.options};
  // FNV-1a, 64 bits: the same on every machine, unlike std::hash.
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : decides.dump()) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return fmt::format("{:016x}", hash);
}

std::vector<Setting> Records::settings(const std::string& artifact) const {
  std::vector<Setting> settings;
  for (const Record& record : records_) {
    const Setting setting{record.source, record.on, record.scale};
    if (record.artifact == artifact &&
        std::find(settings.begin(), settings.end(), setting) == settings.end())
      settings.push_back(setting);
  }
  return settings;
}

const Record* Records::find(const std::string& artifact, const std::string& case_id,
                            const Setting& setting) const {
  const auto found = std::find_if(records_.rbegin(), records_.rend(), [&](const Record& record) {
    return record.artifact == artifact && record.case_id == case_id &&
           Setting{record.source, record.on, record.scale} == setting;
  });
  return found == records_.rend() ? nullptr : &*found;
}

}  // namespace frugal
