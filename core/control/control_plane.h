// SPDX-License-Identifier: Apache-2.0
//
// Through the control plane ranks agree before gradients can travel: which ranks are here, the number of each
// tensor, and, after a failure, which rank failed. It carries small messages through rank 0, never gradients.
// The control connection of a rank with rank 0 also shows that the rank is alive: the kernel closes it when
// the process dies, so all ranks learn of the loss at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/authentication/sha256.h"
#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/process_set.h"
#include "core/base/time.h"

namespace hipress {

/// A message of rank 0 to all ranks. Every rank gets the notices in the same order, on the control plane's
/// own thread.
struct ControlNotice {
  enum class Kind : uint8_t {
    kLost,  ///< The connection of `rank` broke without a goodbye: the rank died or is unreachable.
    /// `rank` called shutdown(), or ended for the reason in `message`. It sends no further messages, but its
    /// earlier ones still arrive.
    kLeft,
    kAborted,  ///< `rank` failed and ended the job; `error` and `message` have the reason.
    /// Ranks declared tensor `tensor` differently, or it was refused; `error` and `message` have the reason.
    kConflict,
    kJoined,  ///< `rank` has called join(); `tensor` is the number of this round of calls.
    /// For a joined rank: `rank` has started step `step` of tensor `tensor` and waits for this rank.
    /// `message` is the sender's text about the tensor.
    kDemand,
  };
  Kind kind = Kind::kLost;
  int rank = -1;
  uint32_t tensor = 0;
  ErrorKind error = ErrorKind::kPeerLost;
  std::string message;
  uint32_t step = 0;
};

/// A tensor as rank 0 compares it: `specification` as text.
struct Declaration {
  std::string name;
  std::string specification;
  bool transient = false;
};

/// The end of a round of join(): the rank that joined last, and the number of the round.
struct JoinRound {
  int last = 0;
  uint32_t number = 0;
};

/// Called with the numbers of the declared tensors, in their order, or with the failure.
using OnDeclared = std::function<void(const Failure& failure, const std::vector<uint32_t>& numbers)>;

/// The numbers of tensors are below it.
inline constexpr uint32_t kTensorNumbers = uint32_t{1} << 31;

/// The control plane on one rank. Thread-safe. Every waiting call has a deadline and throws Timeout (with the
/// names of the missing ranks), PeerLost, Mismatch, or NotInitialized after close().
class ControlPlane {
 public:
  using NoticeHandler = std::function<void(const ControlNotice&)>;

  virtual ~ControlPlane() = default;
  virtual int rank() const = 0;
  virtual int worldSize() const = 0;

  /// A key for one purpose, the same on all ranks. Only processes with this job's token can derive it.
  virtual Digest deriveKey(std::string_view purpose) const = 0;

  /// Sets the handler of notices and delivers earlier notices at once, in order. nullptr ends the delivery.
  /// When the call returns, the old handler does not run and will not run again.
  virtual void onNotice(NoticeHandler handler) = 0;

  /// The values of the ranks `among` under `key`; index: the position of the rank in the set. Returns when
  /// these ranks have called it with this key. After that the key may be used again. A value has at most
  /// 64 MiB. Throws InvalidArgument if this rank is not in the set, or if ranks give different sets.
  virtual std::vector<std::string> allgather(const std::string& key, const std::string& value,
                                             Milliseconds timeout, const ProcessSet& among = {}) = 0;

  /// Gives each rank a text of its own: `values` has one for each rank, and the result has the ones that all
  /// ranks have given this rank. So a rank's bytes do not grow with the texts for others. Otherwise as
  /// allgather(); all values together have at most 64 MiB. Throws InvalidArgument for another number of
  /// values.
  virtual std::vector<std::string> alltoall(const std::string& key, const std::vector<std::string>& values,
                                            Milliseconds timeout) = 0;

  /// The numbers of the tensors, the same on all ranks. One question to rank 0 for all of them, and the call
  /// waits for its answer only. The declaration of the first rank counts: rank 0 compares the specification
  /// with it. For the first difference the call throws Mismatch, rank 0 takes no tensor behind it, and the
  /// ranks that declared the tensor earlier get the notice kConflict. Rank 0 drops a transient tensor when
  /// all ranks `among` have declared it; a later declaration is a new tensor.
  virtual std::vector<uint32_t> declare(std::vector<Declaration> tensors, Milliseconds timeout,
                                        const ProcessSet& among = {}) = 0;

  /// As declare(), but returns at once: `onDeclared` is called once, on the control plane's thread or within
  /// this call. It must not block or throw. It fails when the connection ends, and has no deadline.
  virtual void declareSoon(std::vector<Declaration> tensors, const ProcessSet& among,
                           OnDeclared onDeclared) = 0;

  /// Asks a service at rank 0 by its name (service.h). Waits for rank 0 only, for at most
  /// `timeout`.
  virtual uint32_t ask(const std::string& service, const std::string& question, Milliseconds timeout) = 0;

  /// Says that this rank starts no more operations, and waits until all ranks have said it; without a
  /// deadline, because others may work for long. Until then the other ranks' allgathers with this rank fail
  /// with Unsupported. Throws PeerLost when a rank is gone.
  virtual JoinRound join() = 0;

  /// Sends the notice kDemand to a rank that has joined. Does not wait.
  virtual void demand(int rank, uint32_t tensor, uint32_t step, const std::string& text) = 0;

  /// Refuses a tensor that serves one operation, for the reason `text`, unless the joined rank has declared
  /// it: then the ranks that have declared it get kConflict, the others fail at their declaration. Does not
  /// wait.
  virtual void excuse(int rank, uint32_t tensor, const std::string& text) = 0;

  /// Tells all other ranks that this rank failed. Does not wait. Only the first call of a rank counts.
  virtual void abort(ErrorKind error, const std::string& message) = 0;

  /// Says goodbye: the other ranks get kLeft. Waits until each one has left or is lost, or until `linger` has
  /// passed, so that they receive this rank's messages before its memory goes. The handler has then had their
  /// notices, unless it takes longer than a second. Idempotent. `reason`, such as
  /// "it ended with ValueError: ...", is for the other ranks' errors; empty: a shutdown().
  virtual void leave(Milliseconds linger, const std::string& reason) = 0;

  /// Ends the connection and joins its thread. After abort() or leave() no rank takes this for a lost
  /// rank.
  virtual void close() = 0;
};

}  // namespace hipress
