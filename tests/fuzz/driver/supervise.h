// SPDX-License-Identifier: Apache-2.0
//
// Runs inputs in a child process. A sanitizer, a signal or a hang ends that one; the parent still has the
// input that did it, in memory shared by both.
#pragma once

#include <filesystem>
#include <functional>
#include <span>

#include "tests/fuzz/driver/target.h"

namespace hipress::fuzz {

/// Runs one input as the target's; a run of more than 20 seconds ends the process.
using RunInput = std::function<void(std::span<const uint8_t>)>;

/// Calls work(run) in a child process. Returns 0 if it ended well. Otherwise the input that was running is
/// written to `directory`, its path and what happened to stderr, and 1 is returned.
int supervise(const std::filesystem::path& directory, const std::function<void(const RunInput&)>& work);

}  // namespace hipress::fuzz
