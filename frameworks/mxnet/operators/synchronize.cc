// SPDX-License-Identifier: Apache-2.0
//
// Synchronisation as operations of MXNet's engine. MXNet begins an operation after the last write to its
// arrays, and begins no operation that uses them before it has ended. Python pushes the operations and
// continues, and so does backward. The function for Python returns 0, or -1 with the error kept for the
// caller (see core/casync/run/current_engine.h).
#include <mxnet/c_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/error_name.h"
#include "core/casync/run/current_engine.h"
#include "core/trace/recorder.h"
#include "frameworks/mxnet/operators/array.h"
#include "frameworks/mxnet/operators/array_list.h"
#include "frameworks/mxnet/operators/mxnet_engine.h"
#include "frameworks/operators/kept_error.h"
#include "frameworks/operators/submission.h"

namespace hipress::mxnet_operators {
namespace {

/// The times at which a step's arrays were pushed and at which the last one was ready, for the trace.
class StepTimes {
 public:
  void arrayReady() {
    const int64_t now = TraceRecorder::now();
    int64_t seen = ready_.load();
    while (seen < now && !ready_.compare_exchange_weak(seen, now)) {
    }
  }

  /// Records the span. An array that was ready before its push overlaps nothing.
  void record(TraceRecorder& trace) const {
    TraceSpan span;
    span.name = "backward";
    span.track = TraceTrack::kFramework;
    span.startNs = pushed_;
    span.endNs = ready_.load();
    trace.record(span);
  }

 private:
  const int64_t pushed_ = TraceRecorder::now();
  std::atomic<int64_t> ready_{0};
};

/// MXNet raises the class that is registered for the first word of the text (hipress/mxnet/error_types.py).
std::string errorText(const Error& error) {
  return std::string("hipress.") + errorName(error.kind()) + ": " + error.what();
}

/// The arrays of one step that MXNet has not begun.
class ArraysOfStep {
 public:
  ArraysOfStep(int arrays, TensorHandle tensor) : left_(arrays), tensor_(tensor) {}

  /// MXNet has begun one, or will not begin it. With the last one the step is complete.
  void begun() {
    if (left_.fetch_sub(1) > 1 || !engineRuns()) return;
    guarded([&] { currentEngine()->endStep(tensor_); }, [](const Error&) {});  // the arrays have the error
  }

 private:
  std::atomic<int> left_;
  const TensorHandle tensor_;
};

/// One array in one step.
struct Synchronization {
  TensorHandle tensor = 0;
  SharedArray input;  ///< Empty: see `absent`.
  SharedArray output;
  bool absent = false;  ///< Without an input: true if this rank has no values, false if `output` has them.
  std::shared_ptr<StepTimes> times;  ///< nullptr: not traced
  uint16_t updates = 0;              ///< See Submission::updates.
  ArrayListPointer list;             ///< nullptr: none
  int64_t step = 0;
  std::shared_ptr<ArraysOfStep> together;  ///< nullptr: the step has other arrays, too
  bool begun = false;

  void start(const Completion& completion) {
    begun = true;
    if (times) times->arrayReady();
    const auto declared = currentEngine()->tensor(tensor);
    const ArrayView to = viewOf(output.handle(), declared->spec().name);
    const ArrayView from = input.handle() == nullptr ? to : viewOf(input.handle(), declared->spec().name);
    using Owners = std::pair<std::shared_ptr<void>, std::shared_ptr<void>>;
    ViewSubmission submission;
    submission.updates = updates;
    if (!absent) submission.input = &from.values;
    submission.output = to.values;
    submission.owner = std::make_shared<Owners>(from.owner, to.owner);
    submission.onDone = [completion](const Failure& failure, bool /*absent*/) {
      if (!failure) return completion(nullptr);
      const std::string text = errorText(*failure);
      completion(&text);
    };
    const auto ofStep = together;  // the operation may end, and with it this object, before the call returns
    submitViews(tensor, std::move(submission));
    if (ofStep != nullptr) ofStep->begun();
  }
};

void startSynchronization(void* /*context*/, void* completion, void* parameter) {
  const Completion own(completion);
  guarded([&] { static_cast<Synchronization*>(parameter)->start(own); },
          [&](const Error& error) {
            const std::string text = errorText(error);
            own(&text);
          });
}

/// The end of a step. If one of its arrays failed, all have failed, and MXNet does not call this.
struct StepEnd {
  std::shared_ptr<Engine> traced;  ///< nullptr: nothing to record
  std::shared_ptr<StepTimes> times;
};

void endStep(void* /*context*/, void* parameter) {
  const auto& end = *static_cast<StepEnd*>(parameter);
  TraceRecorder* const trace = end.traced == nullptr ? nullptr : end.traced->trace();
  if (trace != nullptr) end.times->record(*trace);
}

void destroySynchronization(void* parameter) {
  const std::unique_ptr<Synchronization> synchronization(static_cast<Synchronization*>(parameter));
  if (synchronization->begun) return;
  if (synchronization->together != nullptr) synchronization->together->begun();
  if (synchronization->list != nullptr && engineRuns()) synchronization->list->note(synchronization->step);
}

void destroyEnd(void* parameter) {
  delete static_cast<StepEnd*>(parameter);
}

/// Throws InvalidArgument with MXNet's reason.
void checkPush(int result) {
  if (result != 0) throw invalidArgument(std::string("MXNet refused the operation: ") + MXGetLastError());
}

void push(std::unique_ptr<Synchronization> synchronization, int priority) {
  NDArrayHandle input = synchronization->input.handle();
  NDArrayHandle output = synchronization->output.handle();
  const UsedArrays arrays{&input, input == nullptr ? 0 : 1, &output, 1};
  checkPush(pushAsynchronous(startSynchronization, synchronization.release(), destroySynchronization, arrays,
                             priority, "hipress"));
}

void pushEnd(std::unique_ptr<StepEnd> end, NDArrayHandle* arrays, int count) {
  checkPush(pushSynchronous(endStep, end.release(), destroyEnd, {nullptr, 0, arrays, count}, "hipress_step"));
}

}  // namespace
}  // namespace hipress::mxnet_operators

/// outputs[i] := the synchronised values of inputs[i]; in place if both are one array. inputs[i] nullptr:
/// this rank has no values in this step. `together`: no operation may use an output before all are ready, and
/// if one fails, all fail. No two outputs may share memory. `list`: the list for which
/// hipress_mxnet_skipped() knows arrays that MXNet does not begin, because the operation that computes them
/// failed; 0: none. `step`: the number of the list's step. `updates`, `factors`: see updatesInMessage();
/// updates below 0: not compared. `ends_step`: the arrays are all of a step, so the next call begins another.
extern "C" __attribute__((visibility("default"))) int hipress_mxnet_synchronize(
    NDArrayHandle* inputs, NDArrayHandle* outputs, const uint32_t* tensors, int count, int together,
    int64_t list, int64_t step, int64_t updates, uint32_t factors, int ends_step) {
  using namespace hipress;
  using namespace hipress::mxnet_operators;
  const bool well = kept([&] {
    const auto engine = currentEngine();
    const auto ofStep =
        count == 0 || ends_step == 0 ? nullptr : std::make_shared<ArraysOfStep>(count, tensors[0]);
    const auto times = together != 0 && engine->trace() != nullptr ? std::make_shared<StepTimes>() : nullptr;
    for (int i = 0; i < count; ++i) {
      auto synchronization = std::make_unique<Synchronization>(Synchronization{
          tensors[i], SharedArray(inputs[i] == outputs[i] ? nullptr : inputs[i]), SharedArray(outputs[i]),
          inputs[i] == nullptr, times,
          updates < 0 ? uint16_t{0} : updatesInMessage(static_cast<uint64_t>(updates), factors),
          list == 0 ? nullptr : arrayList(list), step, ofStep});
      push(std::move(synchronization), -i);
    }
    const auto traced = times == nullptr ? nullptr : engine;
    if (together != 0) pushEnd(std::make_unique<StepEnd>(StepEnd{traced, times}), outputs, count);
  });
  return well ? 0 : -1;
}

/// `*count`: number of arrays that MXNet did not begin, in the first such step of the list, `*step`. Returns
/// -1 after an error.
extern "C" __attribute__((visibility("default"))) int hipress_mxnet_skipped(int64_t number, int64_t* count,
                                                                            int64_t* step) {
  using namespace hipress::mxnet_operators;
  const bool well = hipress::kept([&] {
    const ArrayListPointer list = knownArrayList(number);
    std::tie(*count, *step) = list == nullptr ? std::pair<int64_t, int64_t>() : list->seen();
  });
  return well ? 0 : -1;
}

/// The Python object of the list has ended. The engine forgets the tensors when MXNet has ended the last
/// operation.
extern "C" __attribute__((visibility("default"))) void hipress_mxnet_forget_list(int64_t number,
                                                                                 const uint32_t* tensors,
                                                                                 size_t count) {
  using namespace hipress::mxnet_operators;
  hipress::guarded(
      [&] {
        if (const ArrayListPointer list = takeArrayList(number)) list->end({tensors, tensors + count});
      },
      [](const hipress::Error&) {});
}
