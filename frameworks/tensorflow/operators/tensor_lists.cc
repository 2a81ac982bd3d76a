// SPDX-License-Identifier: Apache-2.0
#include "frameworks/tensorflow/operators/tensor_lists.h"

#include <utility>

#include "core/casync/current_engine.h"
#include "core/trace/recorder.h"

namespace hipress::tensorflow_operators {
namespace {

struct Lists {
  std::mutex mutex;
  std::map<int64_t, std::shared_ptr<TensorList>> byNumber;
};

Lists& lists() {
  static auto* all = new Lists;  // kernels may run while the process ends
  return *all;
}

}  // namespace

TensorList::TensorList(std::vector<TensorHandle> handles)
    : engine_(currentEngine()), handles_(std::move(handles)) {}

void TensorList::setHandles(std::vector<TensorHandle> handles) {
  const std::lock_guard lock(mutex_);
  handles_ = std::move(handles);
}

TensorHandle TensorList::handle(size_t index) const {
  if (engine_.lock() != currentEngine()) {
    throw Error(ErrorKind::kNotInitialized,
                "this optimizer or tape was made before shutdown() and init(); make a new one, and trace its "
                "tf.function again");
  }
  const std::lock_guard lock(mutex_);
  if (index >= handles_.size()) {
    throw invalidArgument("the list has " + std::to_string(handles_.size()) + " tensors, and none at " +
                          std::to_string(index));
  }
  return handles_[index];
}

void TensorList::computed(size_t count) {
  const auto engine = engine_.lock();
  if (engine == nullptr || engine->trace() == nullptr) return;
  const int64_t now = TraceRecorder::now();
  const std::lock_guard lock(mutex_);
  if (computed_ == 0) firstNs_ = now;
  if (++computed_ < count) return;
  computed_ = 0;
  TraceSpan span;
  span.name = "backward";
  span.track = TraceTrack::kFramework;
  span.startNs = firstNs_;
  span.endNs = now;
  if (TraceRecorder* const recorder = engine->trace()) recorder->record(span);
}

void TensorList::holdBack(size_t index, std::vector<float> values) {
  const std::lock_guard lock(mutex_);
  const auto [place, isNew] = heldBack_.try_emplace(index, std::move(values));
  if (isNew) return;
  for (size_t i = 0; i < place->second.size() && i < values.size(); ++i) place->second[i] += values[i];
}

std::vector<float> TensorList::takeHeldBack(size_t index) {
  const std::lock_guard lock(mutex_);
  auto node = heldBack_.extract(index);
  return node ? std::move(node.mapped()) : std::vector<float>();
}

void defineTensorList(int64_t number, std::vector<TensorHandle> handles) {
  const std::lock_guard lock(lists().mutex);
  auto& list = lists().byNumber[number];
  if (list == nullptr) {
    list = std::make_shared<TensorList>(std::move(handles));
  } else {
    list->setHandles(std::move(handles));
  }
}

std::shared_ptr<TensorList> tensorList(int64_t number) {
  const std::lock_guard lock(lists().mutex);
  const auto found = lists().byNumber.find(number);
  if (found == lists().byNumber.end()) {
    throw invalidArgument(
        "there is no list of tensors " + std::to_string(number) +
        "; the optimizer or tape that a tf.function was traced with must live as long as it");
  }
  return found->second;
}

void forgetTensorList(int64_t number) {
  const std::lock_guard lock(lists().mutex);
  lists().byNumber.erase(number);
}

namespace {

/// Runs `body`; its error is kept for raise_kept_error(). Whether there was none.
template <typename Body>
bool kept(Body body) {
  try {
    body();
    return true;
  } catch (const Error& error) {
    keepError(error);
    return false;
  }
}

}  // namespace
}  // namespace hipress::tensorflow_operators

// Python calls these by ctypes: lists change between steps, outside of any graph.
extern "C" {

__attribute__((visibility("default"))) bool hipress_define_tensor_list(int64_t number,
                                                                       const uint32_t* handles,
                                                                       size_t count) {
  using namespace hipress::tensorflow_operators;
  return kept([&] { defineTensorList(number, {handles, handles + count}); });
}

__attribute__((visibility("default"))) void hipress_forget_tensor_list(int64_t number) {
  hipress::tensorflow_operators::forgetTensorList(number);
}

__attribute__((visibility("default"))) bool hipress_hold_back(int64_t number, size_t index,
                                                              const float* values, size_t count) {
  using namespace hipress::tensorflow_operators;
  return kept([&] { tensorList(number)->holdBack(index, {values, values + count}); });
}

}  // extern "C"
