// SPDX-License-Identifier: Apache-2.0
//
// torch.ops.hipress.* submit tensors to this process' engine and return at once. Each operator returns the
// operation's handle, or -1 if the engine refused. The caller then gets the kept error (see
// core/casync/run/current_engine.h), because torch's dispatcher turns every C++ exception into a
// RuntimeError.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "frameworks/operators/kept_error.h"
#include "frameworks/operators/submission.h"

namespace {

using hipress::DType;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;

std::optional<DType> dtypeOf(ScalarType type) {
  switch (type) {
    case ScalarType::Float:
      return DType::kFloat32;
    case ScalarType::Double:
      return DType::kFloat64;
    case ScalarType::Half:
      return DType::kFloat16;
    case ScalarType::BFloat16:
      return DType::kBFloat16;
    case ScalarType::Byte:
      return DType::kUInt8;
    case ScalarType::Char:
      return DType::kInt8;
    case ScalarType::Short:
      return DType::kInt16;
    case ScalarType::Int:
      return DType::kInt32;
    case ScalarType::Long:
      return DType::kInt64;
    case ScalarType::Bool:
      return DType::kBool;
    default:
      return std::nullopt;
  }
}

/// Whether the elements are contiguous, row-major or channels-last: ranks combine elements in memory order.
bool isDense(const Tensor& tensor) {
  if (tensor.is_contiguous()) return true;
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  const size_t dimensions = sizes.size();
  if (dimensions != 4 && dimensions != 5) return false;
  // From the dimension that changes fastest: the channels (1), then the last dimension down to dimension 2,
  // then the batch (0).
  int64_t expected = 1;
  for (size_t i = 0; i < dimensions; ++i) {
    const size_t dimension = i == 0 ? 1 : i + 1 == dimensions ? 0 : dimensions - i;
    if (sizes[dimension] != 1 && strides[dimension] != expected) return false;
    expected *= sizes[dimension];
  }
  return true;
}

/// "cpu", "cuda:0"; empty: HiPress does not know the place.
std::string placeOf(const Tensor& tensor) {
  if (tensor.is_cpu()) return "cpu";
  return tensor.is_cuda() ? "cuda:" + std::to_string(tensor.get_device_index()) : "";
}

/// Throws InvalidArgument if the elements are not contiguous.
hipress::TensorView viewOf(const Tensor& tensor, hipress::TensorHandle handle) {
  if (!isDense(tensor)) {
    throw hipress::invalidArgument("tensor '" + hipress::currentEngine()->tensor(handle)->spec().name +
                                   "': it is not contiguous; call .contiguous() first");
  }
  return {tensor.data_ptr(), dtypeOf(tensor.scalar_type()), static_cast<uint64_t>(tensor.numel()),
          placeOf(tensor)};
}

/// `input`: nullptr if this rank has no values, or `output`, or another tensor. `updates`: the number of this
/// rank's parameter updates so far; below 0: not counted. `stream`: a stream of the device; the
/// synchronisation begins after the work that torch has put there.
int64_t start(const Tensor* input, const Tensor& output, int64_t handle, int64_t updates, int64_t stream) {
  int64_t operation = -1;
  hipress::kept([&] {
    const auto tensor = static_cast<hipress::TensorHandle>(handle);
    const bool inPlace = input == &output;
    hipress::TensorView values;
    if (input != nullptr) values = viewOf(*input, tensor);
    hipress::ViewSubmission views;
    views.input = input == nullptr ? nullptr : &values;
    views.output = inPlace ? values : viewOf(output, tensor);
    views.stream = reinterpret_cast<void*>(stream);
    views.updates = updates < 0 ? uint16_t{0} : hipress::updatesInMessage(static_cast<uint64_t>(updates));
    if (inPlace || input == nullptr) {
      views.owner = std::make_shared<Tensor>(output);
    } else {
      views.owner = std::make_shared<std::pair<Tensor, Tensor>>(*input, output);
    }
    operation = static_cast<int64_t>(hipress::submitViews(tensor, std::move(views)));
  });
  return operation;
}

/// values := their synchronised values.
int64_t submitInPlace(Tensor values, int64_t tensor, int64_t updates, int64_t stream) {
  return start(&values, values, tensor, updates, stream);
}

/// output := the synchronised values.
int64_t submit(Tensor values, Tensor output, int64_t tensor, int64_t updates, int64_t stream) {
  return start(&values, output, tensor, updates, stream);
}

/// Takes part without values. output := the synchronised values of the ranks that have some.
int64_t submitAbsent(Tensor output, int64_t tensor, int64_t updates, int64_t stream) {
  return start(nullptr, output, tensor, updates, stream);
}

}  // namespace

STABLE_TORCH_LIBRARY(hipress, library) {
  library.def("submit_(Tensor(a!) values, int tensor, int updates=-1, int stream=0) -> int");
  library.def("submit(Tensor values, Tensor(a!) output, int tensor, int updates=-1, int stream=0) -> int");
  library.def("submit_absent(Tensor(a!) output, int tensor, int updates=-1, int stream=0) -> int");
}

STABLE_TORCH_LIBRARY_IMPL(hipress, CompositeExplicitAutograd, library) {
  library.impl("submit_", TORCH_BOX(&submitInPlace));
  library.impl("submit", TORCH_BOX(&submit));
  library.impl("submit_absent", TORCH_BOX(&submitAbsent));
}
