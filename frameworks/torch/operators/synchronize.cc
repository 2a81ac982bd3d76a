// SPDX-License-Identifier: Apache-2.0
//
// torch.ops.hipress.*: hand tensors to this process' engine and return at once. Each returns the operation's
// handle, or -1 when the engine refused; the error is then kept for the caller (see
// core/casync/current_engine.h), because torch's dispatcher turns every C++ exception into a RuntimeError.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/casync/current_engine.h"
#include "core/device/device.h"

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

/// Whether the elements lie without gaps in the order of some permutation of the dimensions. The Python
/// wrapper accepts row-major and channels-last tensors only; this protects memory against everything else.
bool isDense(const Tensor& tensor) {
  if (tensor.is_contiguous()) return true;
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
  return tensor.numel() == 0 || last + 1 == tensor.numel();
}

/// "cpu", "cuda:0"; empty: HiPress does not know it.
std::string placeOf(const Tensor& tensor) {
  if (tensor.is_cpu()) return "cpu";
  return tensor.is_cuda() ? "cuda:" + std::to_string(tensor.get_device_index()) : "";
}

void check(const Tensor& tensor, const hipress::TensorSpec& spec) {
  const std::string where = "tensor '" + spec.name + "': ";
  const std::string declared = spec.device == nullptr ? "cpu" : spec.device->name();
  if (placeOf(tensor) != declared) {
    throw hipress::unsupported(where + "it is not on " + declared +
                               ", where it was when it was declared; move it back there, or make a new "
                               "optimizer after moving the model");
  }
  if (dtypeOf(tensor.scalar_type()) != spec.dtype) {
    throw hipress::Error(hipress::ErrorKind::kMismatch, where + "its element type is not the declared " +
                                                            std::string(hipress::dtypeName(spec.dtype)));
  }
  if (static_cast<uint64_t>(tensor.numel()) != spec.count) {
    throw hipress::Error(hipress::ErrorKind::kMismatch, where + "it has " + std::to_string(tensor.numel()) +
                                                            " elements, declared were " +
                                                            std::to_string(spec.count));
  }
  if (!isDense(tensor))
    throw hipress::invalidArgument(where + "it is not contiguous; call .contiguous() first");
}

/// What the engine, or a device, may use until the operation has ended.
struct Kept {
  Tensor input;
  Tensor output;
  std::shared_ptr<void> ready;
};

/// `stream` is a device's: what torch has put there goes before.
int64_t start(const Tensor* input, const Tensor& output, int64_t handle, int64_t stream) {
  try {
    const auto engine = hipress::currentEngine();
    const auto tensor = static_cast<hipress::TensorHandle>(handle);
    const auto declared = engine->tensor(tensor);
    const hipress::TensorSpec& spec = declared->spec;
    check(output, spec);
    if (input != nullptr) check(*input, spec);
    hipress::Submission submission;
    submission.input = input == nullptr ? nullptr : input->data_ptr();
    // torch gives empty tensors no memory, but a null input means "no values in this step".
    static std::byte nothing;
    if (input != nullptr && submission.input == nullptr) submission.input = &nothing;
    submission.output = output.data_ptr() == nullptr ? &nothing : output.data_ptr();
    std::shared_ptr<void> ready;
    if (spec.device != nullptr) ready = spec.device->eventOn(reinterpret_cast<void*>(stream));
    submission.ready = ready.get();
    submission.keepAlive =
        std::make_shared<Kept>(Kept{input == nullptr ? output : *input, output, std::move(ready)});
    return static_cast<int64_t>(engine->submit(tensor, std::move(submission)));
  } catch (const hipress::Error& error) {
    hipress::keepError(error);
    return -1;
  }
}

/// values := their synchronised values.
int64_t submitInPlace(Tensor values, int64_t tensor, int64_t stream) {
  return start(&values, values, tensor, stream);
}

/// output := the synchronised values.
int64_t submit(Tensor values, Tensor output, int64_t tensor, int64_t stream) {
  return start(&values, output, tensor, stream);
}

/// Takes part without values; output := the synchronised values of the ranks that have some.
int64_t submitAbsent(Tensor output, int64_t tensor, int64_t stream) {
  return start(nullptr, output, tensor, stream);
}

}  // namespace

STABLE_TORCH_LIBRARY(hipress, library) {
  library.def("submit_(Tensor(a!) values, int tensor, int stream) -> int");
  library.def("submit(Tensor values, Tensor(a!) output, int tensor, int stream) -> int");
  library.def("submit_absent(Tensor(a!) output, int tensor, int stream) -> int");
}

STABLE_TORCH_LIBRARY_IMPL(hipress, CompositeExplicitAutograd, library) {
  library.impl("submit_", TORCH_BOX(&submitInPlace));
  library.impl("submit", TORCH_BOX(&submit));
  library.impl("submit_absent", TORCH_BOX(&submitAbsent));
}
