// SPDX-License-Identifier: Apache-2.0
#include "core/element/reduce.h"

#include <cmath>
#include <string>

#include "core/base/error.h"
#include "core/element/choose_fold.h"
#include "core/element/reduce_kernels.h"

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

/// One loop for every instruction set, because no training waits for a minimum.
struct FoldAll {
  std::span<const void* const> contributions;
  size_t count;
  void* output;

  template <typename Policy>
  void operator()(Policy policy) const {
    using Element = Unaligned<typename Policy::Element>;
    const auto at = [&](size_t rank, size_t i) {
      return Policy::load(static_cast<const Element*>(contributions[rank])[i].value);
    };
    for (size_t i = 0; i < count; ++i) {
      auto folded = at(0, i);
      for (size_t rank = 1; rank < contributions.size(); ++rank)
        folded = Policy::combine(folded, at(rank, i));
      static_cast<Element*>(output)[i].value = policy.finish(folded);
    }
  }
};

}  // namespace

void checkReduction(DType dtype, std::span<const void* const> contributions, double factor) {
  if (contributions.empty()) throw invalidArgument("reduceInOrder: no contributions; at least one is needed");
  if (isFloatingPoint(dtype)) return;
  if (dtype == DType::kBool && factor != 1.0) {
    throw unsupported("bool tensors take no factor: it is " + std::to_string(factor) + ", must be 1");
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
  withFold<Plus>(dtype, factor, [&](auto policy) { merge.with(policy); });
}

void combineInOrder(Combination combination, DType dtype, std::span<const void* const> contributions,
                    size_t count, double factor, void* output) {
  if (combination == Combination::kSum) return reduceInOrder(dtype, contributions, count, factor, output);
  checkReduction(dtype, contributions, factor);
  const FoldAll all{contributions, count, output};
  if (combination == Combination::kMin) return withFold<Least>(dtype, factor, all);
  if (combination == Combination::kMax) return withFold<Greatest>(dtype, factor, all);
  withFold<Times>(dtype, factor, all);
}

}  // namespace hipress
