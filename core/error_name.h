// SPDX-License-Identifier: Apache-2.0
//
// The classes of hipress.errors, by which errors are known outside of C++.
#pragma once

#include "core/error.h"

namespace hipress {

inline const char* errorName(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return "InvalidArgument";
    case ErrorKind::kUnsupported:
      return "Unsupported";
    case ErrorKind::kDuplicateName:
      return "DuplicateName";
    case ErrorKind::kNotInitialized:
      return "NotInitialized";
    case ErrorKind::kMismatch:
      return "Mismatch";
    case ErrorKind::kTimeout:
      return "Timeout";
    case ErrorKind::kPeerLost:
      return "PeerLost";
    case ErrorKind::kCorruptPayload:
      return "CorruptPayload";
    case ErrorKind::kTransport:
      return "TransportError";
    case ErrorKind::kRefused:
      return "Refused";
  }
  return "HipressError";
}

}  // namespace hipress
