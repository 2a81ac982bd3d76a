// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda/elements.h"

#include <algorithm>
#include <string>

#include "core/device/cuda/element_kernels.h"
#include "core/error.h"

namespace hipress::cuda {
namespace {

struct Merge {
  std::span<const void* const> contributions;
  size_t count;
  void* output;
  void* scratch;
  Stream stream;

  template <typename Policy>
  void with(Policy policy) const {
    using Kernel = Reduce<Policy>;
    Kernel kernel{policy, {}, 0, count, nullptr, nullptr, static_cast<typename Kernel::Element*>(output)};
    for (size_t first = 0; first < contributions.size(); first += kernel.number) {
      kernel.number = static_cast<unsigned>(std::min(kMostContributions, contributions.size() - first));
      for (unsigned k = 0; k < kernel.number; ++k) {
        kernel.contributions[k] = static_cast<const typename Kernel::Element*>(contributions[first + k]);
      }
      const bool last = first + kernel.number == contributions.size();
      kernel.before = first == 0 ? nullptr : static_cast<typename Kernel::Sum*>(scratch);
      kernel.sums = last ? nullptr : static_cast<typename Kernel::Sum*>(scratch);
      launch(stream, gridFor(count), kernel);
    }
  }
};

/// use(type) with the type that stands for `dtype`.
template <typename Use>
void withFloatingPoint(DType dtype, Use use) {
  switch (dtype) {
    case DType::kFloat32:
      return use(AsFloat32{});
    case DType::kFloat64:
      return use(AsFloat64{});
    case DType::kFloat16:
      return use(AsFloat16{});
    case DType::kBFloat16:
      return use(AsBfloat16{});
    default:
      throw unsupported("conversion between float32 and " + std::string(dtypeName(dtype)) +
                        ": only float16, bfloat16, float32 and float64 tensors can be converted");
  }
}

}  // namespace

size_t reduceScratchBytes(size_t contributions, size_t count) {
  // The largest type of a sum.
  return contributions <= kMostContributions ? 0 : count * sizeof(uint64_t);
}

void reduceInOrder(DType dtype, std::span<const void* const> contributions, size_t count, double factor,
                   void* output, void* scratch, Stream stream) {
  if (count == 0) return;
  const Merge merge{contributions, count, output, scratch, stream};
  withSum(dtype, factor, [&](auto policy) { merge.with(policy); });
}

void add(DType dtype, const void* values, float factor, DecodeMode mode, std::span<float> sum,
         Stream stream) {
  withFloatingPoint(dtype, [&]<typename Type>(Type) {
    const auto* from = static_cast<const typename Type::Element*>(values);
    const unsigned blocks = gridFor(sum.size());
    if (sum.empty()) return;
    if (mode == DecodeMode::kAssign) {
      launch(stream, blocks, Add<Type, false>{from, factor, sum.data(), sum.size()});
    } else {
      launch(stream, blocks, Add<Type, true>{from, factor, sum.data(), sum.size()});
    }
  });
}

void narrow(std::span<const float> values, DType dtype, void* output, Stream stream) {
  withFloatingPoint(dtype, [&]<typename Type>(Type) {
    if (values.empty()) return;
    auto* const to = static_cast<typename Type::Element*>(output);
    launch(stream, gridFor(values.size()), Narrow<Type>{values.data(), to, values.size()});
  });
}

bool hasKernels() {
#if defined(__CUDACC__)
  cudaFuncAttributes attributes{};
  const bool found = cudaFuncGetAttributes(&attributes, detail::run<Narrow<AsFloat32>>) == cudaSuccess;
  cudaGetLastError();  // is not the next call's
  return found;
#else
  return true;
#endif
}

}  // namespace hipress::cuda
