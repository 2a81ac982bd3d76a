// SPDX-License-Identifier: Apache-2.0
#include "core/element/reduce.h"

#include <cmath>
#include <string>

#include "core/element/reduce_kernels.h"
#include "core/error.h"

namespace hipress {
namespace {

struct Merge {
  std::span<const void* const> contributions;
  size_t count;
  double factor;
  void* output;

  template <typename Policy>
  void with(Policy policy) const {
    multiversion<Reduce<Policy>::template Kernel>(policy, contributions.data(), contributions.size(), count,
                                                  output);
  }

  template <typename Signed, typename Unsigned>
  void integers() const {
    if (factor == 1.0) return with(WrappingSum<Unsigned>{});
    with(ScaledIntegerSum<Signed>{factor});
  }
};

}  // namespace

void checkReduction(DType dtype, std::span<const void* const> contributions, double factor) {
  if (contributions.empty()) throw invalidArgument("reduceInOrder: no contributions; at least one is needed");
  if (isFloatingPoint(dtype)) return;
  if (dtype == DType::kBool && factor != 1.0) {
    throw unsupported("bool tensors can only be summed (logical or): factor is " + std::to_string(factor) +
                      ", must be 1");
  }
  if (!std::isfinite(factor)) {
    throw invalidArgument("factor " + std::to_string(factor) + " for a tensor of " +
                          std::string(dtypeName(dtype)) + ": must be finite");
  }
}

void reduceInOrder(DType dtype, std::span<const void* const> contributions, size_t count, double factor,
                   void* output) {
  checkReduction(dtype, contributions, factor);
  if (count == 0) return;
  const Merge merge{contributions, count, factor, output};
  switch (dtype) {
    case DType::kFloat32:
      return merge.with(FloatSum<float>{static_cast<float>(factor)});
    case DType::kFloat64:
      return merge.with(FloatSum<double>{factor});
    case DType::kFloat16:
      return merge.with(Float16Sum{static_cast<float>(factor)});
    case DType::kBFloat16:
      return merge.with(Bfloat16Sum{static_cast<float>(factor)});
    case DType::kUInt8:
      return merge.integers<uint8_t, uint8_t>();
    case DType::kInt8:
      return merge.integers<int8_t, uint8_t>();
    case DType::kInt16:
      return merge.integers<int16_t, uint16_t>();
    case DType::kInt32:
      return merge.integers<int32_t, uint32_t>();
    case DType::kInt64:
      return merge.integers<int64_t, uint64_t>();
    case DType::kBool:
      return merge.with(LogicalOr{});
  }
  throw invalidArgument("dtype number " + std::to_string(static_cast<int>(dtype)) + " does not exist");
}

}  // namespace hipress
