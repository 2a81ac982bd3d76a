// SPDX-License-Identifier: Apache-2.0
//
// The lists of tensors that this process' graphs synchronise. A traced graph names its list by a number,
// which stays when the list's handles change with another codec: graphs need not be traced again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/casync/run/engine.h"

namespace hipress::tensorflow_operators {

/// One list. Thread-safe.
class TensorList {
 public:
  /// A list of this process' current engine. Throws NotInitialized.
  explicit TensorList(std::vector<TensorHandle> handles);

  /// After the ranks have agreed on other codecs.
  void setHandles(std::vector<TensorHandle> handles);

  /// Throws InvalidArgument for an index that the list does not have, NotInitialized if the engine of the
  /// list is not the current one any more.
  TensorHandle handle(size_t index) const;

  /// One of `count` gradients of a step has been computed. The span from the first to the last is the trace's
  /// "backward".
  void computed(size_t count);

  /// The gradient at `index`, one of `count` of a step, is about to be handed over by the run `run` of a
  /// graph. Throws Mismatch, on all ranks, if an earlier run began a step and never handed over all of its
  /// gradients.
  void handOver(size_t index, size_t count, int64_t run);
  /// Completes "rank 2 ..." with its exception, if it has begun a step and not handed over all of its
  /// gradients.
  std::optional<std::string> unfinished() const;
  /// The end of the list: an unfinished step becomes an error of all ranks.
  void end();
  /// Steps of which all gradients were handed over.
  int64_t steps() const;

  /// Some values of the variable at `index`, as a number: another one than before is an update.
  void observe(size_t index, uint64_t values);
  /// From here on updates are not observed, but told by updated().
  void count();
  void updated(size_t index);
  /// How many updates of the variable there were; see Submission::updates.
  uint16_t updates(size_t index) const;

  /// The values of a tensor that an earlier codec held back join its next values (float32).
  void holdBack(size_t index, std::vector<float> values);
  /// It is the caller's from here on; nearly always empty.
  std::vector<float> takeHeldBack(size_t index);
  /// A copy.
  std::vector<float> heldBack(size_t index) const;

 private:
  std::string describeUnfinished() const;

  const std::weak_ptr<Engine> engine_;
  mutable std::mutex mutex_;
  std::vector<TensorHandle> handles_;
  std::map<size_t, std::vector<float>> heldBack_;
  struct Observation {
    uint64_t values = 0;
    uint64_t epoch = 0;  // see forgetValues(); 0: nothing was observed
    uint64_t updates = 0;
  };
  static constexpr uint64_t kCounted = ~uint64_t{0};
  std::vector<Observation> observed_;  // by index
  std::set<size_t> handedOver_;        // in the step that has begun
  size_t gradients_ = 0;               // of that step
  int64_t run_ = 0;
  int64_t steps_ = 0;
  size_t computed_ = 0;  // of this step's gradients
  int64_t firstNs_ = 0;
};

/// Makes the list `number`, or gives it other handles.
void defineTensorList(int64_t number, std::vector<TensorHandle> handles);
/// Throws InvalidArgument if there is none.
std::shared_ptr<TensorList> tensorList(int64_t number);
/// The number is free again; a graph that still uses it gets InvalidArgument.
void forgetTensorList(int64_t number);

/// All variables get new values at once, equal on all ranks, that are no update of the optimizer's.
void forgetValues();
/// The error that ended an operation or a graph of this process, as "InvalidArgumentError: ...".
void noteRaised(std::string what);

}  // namespace hipress::tensorflow_operators
