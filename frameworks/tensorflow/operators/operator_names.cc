// SPDX-License-Identifier: Apache-2.0
#include "frameworks/tensorflow/operators/operator_names.h"

#include <mutex>
#include <unordered_set>

#include "core/base/error.h"

namespace hipress::tensorflow_operators {
namespace {

std::mutex mutex;
std::unordered_set<std::string>& inFlight() {
  static std::unordered_set<std::string> names;
  return names;
}

std::string iterationOf(const tensorflow::FrameAndIter& place, int64_t loops) {
  if (loops == kSameInEveryIteration || place.frame_id == 0) return "";
  const std::string iteration = std::to_string(place.iter_id);
  // The frame of a loop in a loop, or of a function that a loop calls, is different in each iteration of the
  // outer loop. TensorFlow makes its number from the names of the loops and their iterations.
  return loops == 1 ? "[" + iteration + "]" : "[" + std::to_string(place.frame_id) + ":" + iteration + "]";
}

}  // namespace

std::vector<std::string> namesOf(tensorflow::OpKernelContext* context, int64_t loops) {
  const std::string iteration = iterationOf(context->frame_iter(), loops);
  const auto given = context->input(0).flat<tensorflow::tstring>();
  std::vector<std::string> names;
  for (int64_t i = 0; i < given.size(); ++i) names.push_back(std::string(given(i)) + iteration);
  return names;
}

std::shared_ptr<NamesInFlight> NamesInFlight::take(const std::vector<std::string>& names) {
  std::shared_ptr<NamesInFlight> taking(new NamesInFlight);
  const std::lock_guard lock(mutex);
  for (const std::string& name : names) {
    if (inFlight().contains(name)) {
      // `taking` has no names yet, so its destructor does not lock.
      throw Error(ErrorKind::kDuplicateName,
                  "tensor '" + name +
                      "' is being synchronised already; ranks match operations by name and cannot tell two "
                      "with one name apart: wait for the first, or give the second another name");
    }
  }
  inFlight().insert(names.begin(), names.end());
  taking->taken_ = names;
  return taking;
}

NamesInFlight::~NamesInFlight() {
  if (taken_.empty()) return;
  const std::lock_guard lock(mutex);
  for (const std::string& name : taken_) inFlight().erase(name);
}

}  // namespace hipress::tensorflow_operators
