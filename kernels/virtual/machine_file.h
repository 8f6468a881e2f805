#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace frugal::kernels {

/// A machine of a file with what it takes of others in it.
///
/// `base` names another machine, by its name in hardware/ or as a file beside this one. What that
/// has and this does not give itself is taken: every number, with "carried over from BASE: " before
/// its source, and operations. What is said of a machine as such is its own: name, description,
/// device_names, fit, predictions; and calibration, or "as BASE: " and the base's.
///
/// Throws InputError where a file that is named is not there or is wrong, or a machine would be its
/// own base.
nlohmann::json with_base(nlohmann::json machine, const std::string& file);

}  // namespace frugal::kernels
