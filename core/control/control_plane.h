// SPDX-License-Identifier: Apache-2.0
//
// Ranks agree here on all that they need before data can flow: which ranks are here, the number of each
// tensor, and, when a rank fails, which one. Small messages through rank 0, never gradients. The connection
// each rank keeps to rank 0 is also the life line: the kernel closes it when a process dies, so a lost rank
// is known at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/authentication/sha256.h"
#include "core/base/error.h"
#include "core/base/time.h"

namespace hipress {

/// A message of rank 0 to all ranks. Delivered on the control plane's own thread, in the same order on every
/// rank.
struct ControlNotice {
  enum class Kind : uint8_t {
    kLost,  ///< `rank`'s connection broke without a goodbye: it died or became unreachable.
    /// `rank` called shutdown(), or ended as `message` says: it sends nothing more, but its earlier messages
    /// still arrive.
    kLeft,
    kAborted,   ///< `rank` failed and ended the job: `error` and `message` say why.
    kConflict,  ///< Ranks declared tensor `tensor` differently; `message` shows the difference.
  };
  Kind kind = Kind::kLost;
  int rank = -1;
  uint32_t tensor = 0;
  ErrorKind error = ErrorKind::kPeerLost;
  std::string message;
};

/// One rank's view. Thread-safe. Every waiting call has a deadline and throws Timeout (naming the ranks that
/// are missing), PeerLost, Mismatch or NotInitialized (after close()).
class ControlPlane {
 public:
  using NoticeHandler = std::function<void(const ControlNotice&)>;

  virtual ~ControlPlane() = default;
  virtual int rank() const = 0;
  virtual int worldSize() const = 0;

  /// A key for one purpose that only processes with this job's token can derive; the same on all ranks.
  virtual Digest deriveKey(std::string_view purpose) const = 0;

  /// Sets the handler of notices. Notices that came earlier are delivered at once, in order. nullptr ends
  /// delivery; once the call returns, the old handler is not running and will not run again.
  virtual void onNotice(NoticeHandler handler) = 0;

  /// All ranks' values under `key`, by rank; returns once all ranks have called it with this key. A key may
  /// be used again after it completed. Values may be up to 64 MiB.
  virtual std::vector<std::string> allgather(const std::string& key, const std::string& value,
                                             Milliseconds timeout) = 0;

  /// The number of the tensor called `name`, the same on all ranks; the first rank to declare it decides.
  /// Waits for rank 0 only, not for the others. `specification` is compared as text with what other ranks
  /// declared: a difference throws Mismatch here and sends a kConflict notice to the ranks that declared it
  /// before. A `transient` tensor is forgotten by rank 0 when all ranks have declared it, and a later
  /// declaration is a new one.
  virtual uint32_t declare(const std::string& name, const std::string& specification, bool transient,
                           Milliseconds timeout) = 0;

  /// Asks the service of this name at rank 0 (service.h). Waits for rank 0 only, and not longer than
  /// `timeout`.
  virtual uint32_t ask(const std::string& service, const std::string& question, Milliseconds timeout) = 0;

  /// Tells all other ranks that this one failed. Does not wait. Only the first call of a rank counts.
  virtual void abort(ErrorKind error, const std::string& message) = 0;

  /// Says goodbye: others get kLeft. Waits until every other rank has left, is lost, or `linger` has passed:
  /// so that this rank's messages are received before its memory goes away. Idempotent. `reason`, as in "it
  /// ended with ValueError: ...", is for the others' errors; empty: it called shutdown.
  virtual void leave(Milliseconds linger, const std::string& reason) = 0;

  /// Ends the connection and joins its thread. After abort() or leave() nothing of this looks like a lost
  /// rank.
  virtual void close() = 0;
};

}  // namespace hipress
