// SPDX-License-Identifier: Apache-2.0
//
// Runs inputs in a child process. A sanitizer, a signal or a hang ends the child. The parent still has the
// child's last input, because both share its memory.
#pragma once

#include <filesystem>
#include <functional>
#include <span>

#include "tests/fuzz/driver/target.h"

namespace hipress::fuzz {

/// Runs the target with one input; a run of more than 20 seconds ends the process.
using RunInput = std::function<void(std::span<const uint8_t>)>;

/// Calls work(run) in a child process. Returns 0 if the child ended well. Otherwise it writes the child's
/// last input to `directory`, writes its path and the reason to stderr, and returns 1.
int supervise(const std::filesystem::path& directory, const std::function<void(const RunInput&)>& work);

}  // namespace hipress::fuzz
