// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/stl.h>

#include <optional>
#include <stop_token>

namespace hipress::bindings {

/// The argument `stop` of Python's calls.
using Stop = std::optional<std::stop_source>;

inline std::stop_token tokenOf(const Stop& stop) {
  return stop ? stop->get_token() : std::stop_token();
}

}  // namespace hipress::bindings
