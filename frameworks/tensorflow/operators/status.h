// SPDX-License-Identifier: Apache-2.0
//
// HiPress' errors as statuses of TensorFlow: the code is the nearest one, and the payload names the error, so
// that Python can raise it (frameworks/tensorflow/python/failures.py).
#pragma once

#include <absl/status/status.h>
#include <absl/strings/cord.h>

#include <string_view>
#include <utility>

#include "core/base/error_name.h"
#include "frameworks/operators/kept_error.h"

namespace hipress::tensorflow_operators {

inline constexpr std::string_view kErrorPayload = "hipress/error";

inline absl::StatusCode statusCode(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kDuplicateName:
      return absl::StatusCode::kInvalidArgument;
    case ErrorKind::kMismatch:  // like Horovod's
      return absl::StatusCode::kFailedPrecondition;
    case ErrorKind::kUnsupported:
      return absl::StatusCode::kUnimplemented;
    case ErrorKind::kNotInitialized:
      return absl::StatusCode::kFailedPrecondition;
    case ErrorKind::kTimeout:
      return absl::StatusCode::kDeadlineExceeded;
    case ErrorKind::kPeerLost:
      return absl::StatusCode::kUnavailable;
    case ErrorKind::kCorruptPayload:
      return absl::StatusCode::kDataLoss;
    case ErrorKind::kTransport:
      return absl::StatusCode::kInternal;
    case ErrorKind::kRefused:
      return absl::StatusCode::kPermissionDenied;
  }
  return absl::StatusCode::kUnknown;
}

inline absl::Status statusOf(const Error& error) {
  absl::Status status(statusCode(error.kind()), error.what());
  status.SetPayload(kErrorPayload, absl::Cord(errorName(error.kind())));
  return status;
}

/// Calls `body`. Its error becomes the status of the operator, because TensorFlow catches no exception.
/// Returns whether there was no error.
template <typename Context, typename Body>
bool guarded(Context* context, Body&& body) {
  return hipress::guarded(std::forward<Body>(body),
                          [&](const Error& error) { context->SetStatus(statusOf(error)); });
}

}  // namespace hipress::tensorflow_operators
