// SPDX-License-Identifier: Apache-2.0
//
// HiPress' errors as TensorFlow carries them: a status whose code is the nearest that there is, and whose
// payload names the error, so that Python can raise the very one (frameworks/tensorflow/python/failures.py).
#pragma once

#include <absl/status/status.h>
#include <absl/strings/cord.h>

#include <string_view>

#include "core/error.h"

namespace hipress::tensorflow_operators {

inline constexpr std::string_view kErrorPayload = "hipress/error";

struct StatusKind {
  absl::StatusCode code;
  std::string_view name;  ///< Of the class in hipress.errors.
};

inline StatusKind statusKind(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return {absl::StatusCode::kInvalidArgument, "InvalidArgument"};
    case ErrorKind::kUnsupported:
      return {absl::StatusCode::kUnimplemented, "Unsupported"};
    case ErrorKind::kDuplicateName:
      return {absl::StatusCode::kInvalidArgument, "DuplicateName"};
    case ErrorKind::kNotInitialized:
      return {absl::StatusCode::kFailedPrecondition, "NotInitialized"};
    case ErrorKind::kMismatch:
      return {absl::StatusCode::kInvalidArgument, "Mismatch"};
    case ErrorKind::kTimeout:
      return {absl::StatusCode::kDeadlineExceeded, "Timeout"};
    case ErrorKind::kPeerLost:
      return {absl::StatusCode::kUnavailable, "PeerLost"};
    case ErrorKind::kCorruptPayload:
      return {absl::StatusCode::kDataLoss, "CorruptPayload"};
    case ErrorKind::kTransport:
      return {absl::StatusCode::kInternal, "TransportError"};
    case ErrorKind::kRefused:
      return {absl::StatusCode::kPermissionDenied, "Refused"};
  }
  return {absl::StatusCode::kUnknown, "HipressError"};
}

inline absl::Status statusOf(const Error& error) {
  const StatusKind kind = statusKind(error.kind());
  absl::Status status(kind.code, error.what());
  status.SetPayload(kErrorPayload, absl::Cord(kind.name));
  return status;
}

}  // namespace hipress::tensorflow_operators
