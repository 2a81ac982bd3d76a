// SPDX-License-Identifier: Apache-2.0
//
// How an operation ended that nobody waits for in a call: an Error as a value, which many may share.
#pragma once

#include <memory>
#include <string>

#include "core/base/error.h"
#include "core/base/inline_function.h"

namespace hipress {

/// nullptr: the operation went well.
using Failure = std::shared_ptr<const Error>;

inline Failure failureOf(ErrorKind kind, const std::string& message) {
  return std::make_shared<const Error>(kind, message);
}
inline Failure failureOf(const Error& error) {
  return std::make_shared<const Error>(error);
}

/// Called once, when an operation has ended.
using EndCallback = InlineFunction<void(const Failure&)>;

}  // namespace hipress
