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
  void* output;

  template <typename Policy>
  void with(Policy policy) const {
    multiversion<Reduce<Policy>::template Kernel>(policy, contributions.data(), contributions.size(), count,
                                                  output);
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
  const Merge merge{contributions, count, output};
  withSum(dtype, factor, [&](auto policy) { merge.with(policy); });
}

}  // namespace hipress
