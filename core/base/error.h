// SPDX-License-Identifier: Apache-2.0
//
// The error taxonomy. Every failure a caller can meet is one of these, in C++ and, under the same names, in
// Python
// (`hipress.PeerLost`, ...). A message says what happened, where (rank, tensor, line), and what to do about
// it.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace hipress {

enum class ErrorKind : unsigned char {
  kInvalidArgument = 1,  ///< The call itself is wrong: unknown codec, bad option, non-contiguous tensor.
  kUnsupported,          ///< The call is well formed, but this dtype, device or build cannot do it.
  kDuplicateName,        ///< Two tensors that are in flight at the same time carry one name.
  kNotInitialized,       ///< Used before init() or after shutdown().
  kMismatch,             ///< Ranks disagree: different tensor lists, shapes, dtypes, codecs, world sizes.
  kTimeout,              ///< A deadline passed; the message names the rank and the tensor waited for.
  kPeerLost,             ///< A rank died, left, or its connection broke; the message names it.
  kCorruptPayload,       ///< A received payload fails validation; nothing of it was applied.
  kTransport,            ///< The network or UCX refused: port in use, address unreachable, library missing.
  kRefused,              ///< The rendezvous turned this process away: wrong job token, rank already taken.
};

/// Base of all errors. Thrown across libhipress' C++ API; stored in operations that fail asynchronously.
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
