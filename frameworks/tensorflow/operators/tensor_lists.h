// SPDX-License-Identifier: Apache-2.0
//
// The lists of tensors that this process' graphs synchronise. A traced graph knows its list by a number. The
// number stays when another codec changes the list's handles, so graphs need no new trace.
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
  /// Makes a list of this process' current engine. Throws NotInitialized.
  explicit TensorList(std::vector<TensorHandle> handles);

  /// Whether its engine is this process' current one.
  bool isCurrent() const;

  /// Sets new handles after the ranks have agreed on other codecs.
  void setHandles(std::vector<TensorHandle> handles);

  /// Throws InvalidArgument if the list has no such index, and NotInitialized if the list's engine is not the
  /// current one any more.
  TensorHandle handle(size_t index) const;

  /// One of `count` gradients of a step has been computed. The span from the first to the last one is
  /// "backward" in the trace.
  void computed(size_t count);

  /// The run `run` of a graph is about to submit the gradient at `index`, one of `count` of a step.
  /// Throws Mismatch, on all ranks, if an earlier run began a step and did not submit all of its
  /// gradients.
  void handOver(size_t index, size_t count, int64_t run);
  /// One of `count` gradients of a step has been submitted; with the last one the step is complete.
  void submitted(size_t count);
  /// The text that completes "rank 2 ..." with its exception, if it has begun a step and not submitted all of
  /// its gradients.
  std::optional<std::string> unfinished() const;
  /// The end of the list: an unfinished step becomes an error of all ranks.
  void end();
  /// The number of steps whose gradients were all submitted.
  int64_t steps() const;

  /// `values`: some values of the variable at `index`, as a number. A changed number is an update.
  void observe(size_t index, uint64_t values);
  /// From here on updated() counts the updates, and observe() does not.
  void count();
  void updated(size_t index);
  /// The number of updates of the variable; see Submission::updates.
  uint16_t updates(size_t index) const;

  /// The number of steps, and of the updates of each variable.
  std::vector<int64_t> progress() const;
  /// Goes on from the progress of another rank, after this rank has joined.
  void continueFrom(std::span<const int64_t> progress);

  /// The next values are gradients times `scale`: multiplies what was kept of earlier ones, if the scale has
  /// changed. From the first scale on the states change by whole steps, because a scaler leaves out whole
  /// steps. Throws InvalidArgument if a tensor is in flight, and NotInitialized.
  void setScale(float scale);
  /// All kept values have been replaced by values in the unit of the gradient.
  void statesReplaced();

  /// Keeps values that an earlier codec has not sent (float32). They are added to the tensor's next values.
  void holdBack(size_t index, std::vector<float> values);
  /// Moves the held values to the caller; nearly always empty.
  std::vector<float> takeHeldBack(size_t index);
  /// A copy of the held values.
  std::vector<float> heldBack(size_t index) const;

 private:
  std::string describeUnfinished() const;

  const std::weak_ptr<Engine> engine_;
  mutable std::mutex mutex_;
  std::vector<TensorHandle> handles_;
  std::map<size_t, std::vector<float>> heldBack_;
  float scale_ = 1.0f;  // all kept values are in the unit of gradients times this
  struct Observation {
    uint64_t values = 0;
    uint64_t epoch = 0;  // see forgetValues(); 0: no observation yet
    uint64_t updates = 0;
  };
  static constexpr uint64_t kCounted = ~uint64_t{0};
  std::vector<Observation> observed_;  // by index
  std::set<size_t> handedOver_;        // in the step that has begun
  size_t gradients_ = 0;               // of that step
  size_t submitted_ = 0;               // in that step
  bool bySteps_ = false;               // see setScale()
  int64_t run_ = 0;
  int64_t steps_ = 0;
  size_t computed_ = 0;  // of this step's gradients
  int64_t firstNs_ = 0;
};

/// Makes the list `number`, or changes its handles. `anew`: a list of that number begins again, with this
/// process' current engine; graphs that were traced before go on with it.
void defineTensorList(int64_t number, std::vector<TensorHandle> handles, bool anew);
/// Throws InvalidArgument for an unknown number.
std::shared_ptr<TensorList> tensorList(int64_t number);
/// The list for a running graph, after a restart if that is due. Throws the error of the restart, too.
std::shared_ptr<TensorList> listInGraph(int64_t number);

/// Python's function that lets a list of an earlier engine begin again. Returns 1 if it has, 0 if the list
/// stays as it is, and -1 after an error, whose kind and text it writes to two places of kRestartText bytes.
using Restart = int (*)(int64_t number, char* kind, char* text);
inline constexpr size_t kRestartText = 1024;
/// From here on listInGraph() calls it for such a list: in an elastic job a graph outlives the engine.
void setRestart(Restart restart);
/// Frees the number. A graph that still uses it gets InvalidArgument.
void forgetTensorList(int64_t number);

/// Says that all variables have new values now, equal on all ranks, which are no update of the optimizer.
void forgetValues();
/// Notes the error that ended an operation or a graph of this process: "InvalidArgumentError: ...".
void noteRaised(std::string what);

}  // namespace hipress::tensorflow_operators
