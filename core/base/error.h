// SPDX-License-Identifier: Apache-2.0
//
// The kinds of errors. Every failure of a call is one of these kinds, in C++ and, under the same
// names, in Python (`hipress.PeerLost` and others). A message says what happened, where (rank,
// tensor, file, line), and what the user can do about it. The Python classes are in
// hipress.errors.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace hipress {

enum class ErrorKind : unsigned char {
  kInvalidArgument = 1,  ///< The call itself is wrong: unknown codec, bad option, non-contiguous tensor.
  kUnsupported,          ///< The call is well formed, but this dtype, device or build cannot do it.
  kDuplicateName,        ///< Two tensors in flight at the same time have the same name.
  kNotInitialized,       ///< The call came before init() or after shutdown().
  kMismatch,             ///< Ranks disagree: different tensor lists, shapes, dtypes, codecs, world sizes.
  kTimeout,              ///< A deadline has passed; the message names the late rank and the tensor.
  kPeerLost,             ///< A rank died or left, or its connection broke; the message names the rank.
  kCorruptPayload,       ///< A received payload is invalid; no part of it was applied.
  kTransport,            ///< The network or UCX refused: port in use, address unreachable, library missing.
  kRefused,              ///< The rendezvous rejected this process: wrong job token, rank already taken.
};

/// The base of all errors. The C++ API of libhipress throws it, and a failed operation keeps it.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

inline Error invalidArgument(const std::string& message) {
  return {ErrorKind::kInvalidArgument, message};
}
inline Error unsupported(const std::string& message) {
  return {ErrorKind::kUnsupported, message};
}
inline Error corruptPayload(const std::string& message) {
  return {ErrorKind::kCorruptPayload, message};
}
inline Error transportError(const std::string& message) {
  return {ErrorKind::kTransport, message};
}

}  // namespace hipress
