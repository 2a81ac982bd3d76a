// SPDX-License-Identifier: Apache-2.0
//
// The end of an operation for which no call waits: an Error as a value that several owners share.
#pragma once

#include <memory>
#include <string>

#include "core/base/error.h"
#include "core/base/inline_function.h"

namespace hipress {

/// nullptr: the operation has succeeded.
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
