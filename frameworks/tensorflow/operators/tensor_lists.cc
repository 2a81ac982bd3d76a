// SPDX-License-Identifier: Apache-2.0
#include "frameworks/tensorflow/operators/tensor_lists.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <utility>

#include "core/base/error_name.h"
#include "core/casync/run/current_engine.h"
#include "core/trace/recorder.h"
#include "frameworks/operators/kept_error.h"

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

struct Raised {
  std::mutex mutex;
  std::string what;
};

Raised& raised() {
  static auto* last = new Raised;
  return *last;
}

std::string takeRaised() {
  const std::lock_guard lock(raised().mutex);
  return std::exchange(raised().what, {});
}

std::atomic<uint64_t> valuesEpoch{1};

}  // namespace

void forgetValues() {
  valuesEpoch.fetch_add(1);
}

void noteRaised(std::string what) {
  const std::lock_guard lock(raised().mutex);
  raised().what = std::move(what);
}

TensorList::TensorList(std::vector<TensorHandle> handles)
    : engine_(currentEngine()), handles_(std::move(handles)), observed_(handles_.size()) {}

bool TensorList::isCurrent() const {
  return engine_.lock() == currentEngine();
}

void TensorList::setHandles(std::vector<TensorHandle> handles) {
  const std::lock_guard lock(mutex_);
  handles_ = std::move(handles);
  const auto engine = engine_.lock();
  if (bySteps_ && engine != nullptr) engine->settleBySteps(handles_);
}

TensorHandle TensorList::handle(size_t index) const {
  if (!isCurrent()) {
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

void TensorList::handOver(size_t index, size_t count, int64_t run) {
  const auto engine = engine_.lock();
  if (engine == nullptr || engine->worldSize() == 1) return;
  std::optional<std::string> what;
  {
    const std::lock_guard lock(mutex_);
    if (handedOver_.empty()) {
      takeRaised();  // drops an error of earlier work
      run_ = run;
      gradients_ = count;
    } else if (run != run_ || handedOver_.contains(index)) {
      what = describeUnfinished();
    }
    if (!what) handedOver_.insert(index);
    if (handedOver_.size() == gradients_) {
      handedOver_.clear();
      ++steps_;
    }
  }
  if (!what) return;
  engine->fail(
      {ErrorKind::kMismatch,
       "rank " + std::to_string(engine->rank()) + " " + *what +
           ", caught it and went on, while the other ranks wait for the rest. Let such an exception end "
           "the rank"});
  engine->throwIfFailed("handing over gradients");
}

void TensorList::submitted(size_t count) {
  const std::lock_guard lock(mutex_);
  if (++submitted_ < count) return;
  submitted_ = 0;
  const auto engine = engine_.lock();
  if (bySteps_ && engine != nullptr) engine->endStep(handles_.front());
}

std::optional<std::string> TensorList::unfinished() const {
  const std::lock_guard lock(mutex_);
  if (handedOver_.empty()) return std::nullopt;
  return describeUnfinished();
}

/// The caller has the mutex.
std::string TensorList::describeUnfinished() const {
  std::string what;
  {
    const std::lock_guard lock(raised().mutex);
    what = raised().what;
  }
  return "raised " + (what.empty() ? "something" : what) + " when " + std::to_string(handedOver_.size()) +
         " of " + std::to_string(gradients_) + " gradients of step " + std::to_string(steps_) +
         " had been handed over";
}

void TensorList::end() {
  const auto engine = engine_.lock();
  const auto what = unfinished();
  if (engine == nullptr || !what) return;
  engine->fail({ErrorKind::kPeerLost,
                "rank " + std::to_string(engine->rank()) + " ended in the middle of a step: it " + *what});
}

int64_t TensorList::steps() const {
  const std::lock_guard lock(mutex_);
  return steps_;
}

void TensorList::observe(size_t index, uint64_t values) {
  const uint64_t epoch = valuesEpoch.load();
  const std::lock_guard lock(mutex_);
  if (index >= observed_.size()) return;
  Observation& last = observed_[index];
  if (last.epoch == epoch && last.values != values) ++last.updates;
  last.values = values;
  last.epoch = epoch;
}

void TensorList::count() {
  const std::lock_guard lock(mutex_);
  for (Observation& each : observed_) each.epoch = kCounted;
}

void TensorList::updated(size_t index) {
  const std::lock_guard lock(mutex_);
  if (index < observed_.size()) ++observed_[index].updates;
}

uint16_t TensorList::updates(size_t index) const {
  const std::lock_guard lock(mutex_);
  if (index >= observed_.size() || observed_[index].epoch == 0) return 0;
  return updatesInMessage(observed_[index].updates);
}

std::vector<int64_t> TensorList::progress() const {
  const std::lock_guard lock(mutex_);
  std::vector<int64_t> all{steps_};
  for (const Observation& each : observed_) all.push_back(static_cast<int64_t>(each.updates));
  return all;
}

void TensorList::continueFrom(std::span<const int64_t> progress) {
  const std::lock_guard lock(mutex_);
  if (progress.size() != observed_.size() + 1)
    throw invalidArgument("the progress of a list of " + std::to_string(observed_.size()) +
                          " tensors has one number more, not " + std::to_string(progress.size()) +
                          " numbers");
  steps_ = progress.front();
  for (size_t index = 0; index < observed_.size(); ++index)
    observed_[index].updates = static_cast<uint64_t>(progress[index + 1]);
}

void TensorList::setScale(float scale) {
  const std::lock_guard lock(mutex_);  // other gradients of the step wait here until the states have changed
  if (scale == scale_ || !std::isfinite(scale) || scale <= 0) return;
  const float factor = scale / scale_;
  const auto engine = engine_.lock();
  if (engine == nullptr) return;  // handle() has the error
  if (!bySteps_) engine->settleBySteps(handles_);
  bySteps_ = true;
  engine->multiplyStates(handles_, factor);
  for (auto& [index, values] : heldBack_) {
    for (float& value : values) value *= factor;
  }
  scale_ = scale;
}

void TensorList::statesReplaced() {
  const std::lock_guard lock(mutex_);
  scale_ = 1.0f;
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

std::vector<float> TensorList::heldBack(size_t index) const {
  const std::lock_guard lock(mutex_);
  const auto found = heldBack_.find(index);
  return found == heldBack_.end() ? std::vector<float>() : found->second;
}

void defineTensorList(int64_t number, std::vector<TensorHandle> handles, bool anew) {
  const std::lock_guard lock(lists().mutex);
  auto& list = lists().byNumber[number];
  if (list == nullptr || anew) {
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

namespace {

/// The list, which Python may have let begin again. Other threads wait here meanwhile.
std::shared_ptr<TensorList> restarted(int64_t number, Restart restart) {
  static auto* one = new std::mutex;  // kernels may run while the process ends
  const std::lock_guard lock(*one);
  const auto list = tensorList(number);
  if (list->isCurrent()) return list;
  std::array<char, kRestartText> kind{};
  std::array<char, kRestartText> text{};
  const int result = restart(number, kind.data(), text.data());
  if (result < 0) throw Error(errorKindOf(kind.data()).value_or(ErrorKind::kMismatch), text.data());
  return result == 0 ? list : tensorList(number);
}

std::atomic<Restart> restartOfLists{nullptr};

}  // namespace

void setRestart(Restart restart) {
  restartOfLists.store(restart);
}

std::shared_ptr<TensorList> listInGraph(int64_t number) {
  auto list = tensorList(number);
  const Restart restart = restartOfLists.load();
  return restart == nullptr || list->isCurrent() ? list : restarted(number, restart);
}

void forgetTensorList(int64_t number) {
  std::shared_ptr<TensorList> list;
  {
    const std::lock_guard lock(lists().mutex);
    if (auto node = lists().byNumber.extract(number)) list = std::move(node.mapped());
  }
  if (list != nullptr) list->end();
}

}  // namespace hipress::tensorflow_operators

// Python calls these by ctypes, because lists change between steps, outside of any graph. They return false
// if they have kept an error.
extern "C" {

__attribute__((visibility("default"))) bool hipress_define_tensor_list(int64_t number,
                                                                       const uint32_t* handles, size_t count,
                                                                       bool anew) {
  using namespace hipress::tensorflow_operators;
  return hipress::kept([&] { defineTensorList(number, {handles, handles + count}, anew); });
}

__attribute__((visibility("default"))) void hipress_set_restart(int (*restart)(int64_t, char*, char*)) {
  hipress::tensorflow_operators::setRestart(restart);
}

__attribute__((visibility("default"))) bool hipress_forget_tensor_list(int64_t number) {
  return hipress::kept([&] { hipress::tensorflow_operators::forgetTensorList(number); });
}

__attribute__((visibility("default"))) bool hipress_hold_back(int64_t number, size_t index,
                                                              const float* values, size_t count) {
  using namespace hipress::tensorflow_operators;
  return hipress::kept([&] { tensorList(number)->holdBack(index, {values, values + count}); });
}

/// `*found`: whether the list holds values for the tensor's next step. Copies them to `values`, which has
/// room for `count`.
__attribute__((visibility("default"))) bool hipress_copy_held_back(int64_t number, size_t index,
                                                                   float* values, size_t count, bool* found) {
  return hipress::kept([&] {
    const auto held = hipress::tensorflow_operators::tensorList(number)->heldBack(index);
    std::copy_n(held.begin(), std::min(count, held.size()), values);
    *found = !held.empty();
  });
}

/// Drops the held values of the tensor.
__attribute__((visibility("default"))) bool hipress_forget_held_back(int64_t number, size_t index) {
  return hipress::kept([&] { hipress::tensorflow_operators::tensorList(number)->takeHeldBack(index); });
}

/// Copies TensorList::unfinished(), cut to `size` characters with the closing 0; an empty text if there is
/// none.
__attribute__((visibility("default"))) bool hipress_unfinished(int64_t number, char* text, size_t size) {
  return hipress::kept([&] {
    const auto what = hipress::tensorflow_operators::tensorList(number)->unfinished().value_or("");
    const size_t length = std::min(size - 1, what.size());
    std::copy_n(what.data(), length, text);
    text[length] = 0;
  });
}

/// See TensorList::count().
__attribute__((visibility("default"))) bool hipress_count_updates(int64_t number) {
  using namespace hipress::tensorflow_operators;
  return hipress::kept([&] { tensorList(number)->count(); });
}

/// See TensorList::setScale().
__attribute__((visibility("default"))) bool hipress_set_scale(int64_t number, float scale) {
  return hipress::kept([&] { hipress::tensorflow_operators::tensorList(number)->setScale(scale); });
}

/// See TensorList::statesReplaced().
__attribute__((visibility("default"))) bool hipress_states_replaced(int64_t number) {
  return hipress::kept([&] { hipress::tensorflow_operators::tensorList(number)->statesReplaced(); });
}

__attribute__((visibility("default"))) bool hipress_steps(int64_t number, int64_t* steps) {
  return hipress::kept([&] { *steps = hipress::tensorflow_operators::tensorList(number)->steps(); });
}

/// See TensorList::progress(); `values` has room for `count` numbers.
__attribute__((visibility("default"))) bool hipress_progress(int64_t number, int64_t* values, size_t count) {
  return hipress::kept([&] {
    const auto all = hipress::tensorflow_operators::tensorList(number)->progress();
    std::copy_n(all.begin(), std::min(count, all.size()), values);
  });
}

/// See TensorList::continueFrom().
__attribute__((visibility("default"))) bool hipress_continue_from(int64_t number, const int64_t* values,
                                                                  size_t count) {
  return hipress::kept(
      [&] { hipress::tensorflow_operators::tensorList(number)->continueFrom({values, count}); });
}

__attribute__((visibility("default"))) bool hipress_note_raised(const char* what) {
  return hipress::kept([&] { hipress::tensorflow_operators::noteRaised(what); });
}

__attribute__((visibility("default"))) void hipress_forget_values() {
  hipress::tensorflow_operators::forgetValues();
}

}  // extern "C"
