// SPDX-License-Identifier: Apache-2.0
//
// The part that the operators of all frameworks share: they check a tensor against the agreed specification,
// and submit it to this process' engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/casync/run/current_engine.h"
#include "core/device/device.h"

namespace hipress {

/// A framework's tensor with contiguous elements.
struct TensorView {
  void* data = nullptr;        ///< May be nullptr if there are no elements.
  std::optional<DType> dtype;  ///< std::nullopt: a type that HiPress does not have.
  uint64_t count = 0;
  std::string device = "cpu";  ///< "cuda:0"; empty: a device that HiPress does not know.
};

/// `count`: the expected number of elements. Throws Unsupported, Mismatch.
inline void checkView(const TensorView& tensor, const TensorSpec& spec, uint64_t count) {
  const auto where = [&spec] { return "tensor '" + spec.name + "': "; };
  const bool inPlace = spec.device == nullptr ? tensor.device == "cpu" : tensor.device == spec.device->name();
  if (!inPlace) {
    throw unsupported(
        where() + "it is not on " + (spec.device == nullptr ? "cpu" : spec.device->name()) +
        ", where it was when it was declared; move it back there, or make a new optimizer after "
        "moving the model");
  }
  if (tensor.dtype != spec.dtype) {
    throw Error(ErrorKind::kMismatch,
                where() + "its element type is not the declared " + std::string(dtypeName(spec.dtype)));
  }
  if (tensor.count != count) {
    throw Error(ErrorKind::kMismatch, where() + "it has " + std::to_string(tensor.count) +
                                          " elements, declared were " + std::to_string(count));
  }
}

/// One tensor of one step, and the function to call at its end.
struct ViewSubmission {
  const TensorView* input = nullptr;  ///< nullptr: this rank has no values in this step.
  TensorView output;                  ///< may be the input
  void* stream = nullptr;             ///< On a device: work on this stream goes before.
  std::shared_ptr<void> owner;        ///< Owns the memory of both until the operation has released it.
  OnDone onDone;                      ///< See Submission::onDone; nullptr: a caller waits for the handle.
  uint16_t updates = 0;               ///< See Submission::updates.
};

/// Starts an operation on this process' engine. Throws the errors of Engine::submit(), and Unsupported,
/// Mismatch, NotInitialized.
inline OperationHandle submitViews(TensorHandle tensor, ViewSubmission views) {
  const auto engine = currentEngine();
  const auto declared = engine->tensor(tensor);
  const TensorSpec& spec = declared->spec();
  checkView(views.output, spec, declared->outputBytes() / elementSize(spec.dtype));
  if (views.input != nullptr) checkView(*views.input, spec, spec.count);

  // Frameworks give empty tensors no memory, but a null input means "no values in this step".
  static std::byte nothing;
  const auto placeOf = [](const TensorView& view) { return view.data == nullptr ? &nothing : view.data; };
  Submission submission;
  submission.input = views.input == nullptr ? nullptr : placeOf(*views.input);
  submission.output = placeOf(views.output);
  submission.keepAlive = std::move(views.owner);
  if (spec.device != nullptr) {
    auto ready = spec.device->eventOn(views.stream);
    submission.ready = ready.get();
    using Kept = std::pair<std::shared_ptr<void>, std::shared_ptr<void>>;
    submission.keepAlive = std::make_shared<Kept>(std::move(submission.keepAlive), std::move(ready));
  }
  submission.onDone = std::move(views.onDone);
  submission.updates = views.updates;
  return engine->submit(tensor, std::move(submission));
}

}  // namespace hipress
