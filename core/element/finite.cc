// SPDX-License-Identifier: Apache-2.0
#include "core/element/finite.h"

#include "core/element/folds.h"
#include "core/element/multiversion.h"
#include "core/element/unaligned.h"

namespace hipress {
namespace {

template <typename Type>
struct CountsNotFinite {
  template <IsaLevel>
  struct Kernel {
    static bool run(const Unaligned<typename Type::Element>* values, size_t count) {
      uint32_t found = 0;  // no early end: the loop without a branch is vectorised
      for (size_t i = 0; i < count; ++i) found |= Type::isFinite(values[i].value) ? 0u : 1u;
      return found == 0;
    }
  };
};

template <typename Type>
bool allFiniteAs(const void* values, size_t count) {
  return multiversion<CountsNotFinite<Type>::template Kernel>(
      static_cast<const Unaligned<typename Type::Element>*>(values), count);
}

}  // namespace

bool allFinite(const void* values, DType dtype, size_t count) {
  if (count == 0) return true;
  switch (dtype) {
    case DType::kFloat32:
      return allFiniteAs<Native<float>>(values, count);
    case DType::kFloat64:
      return allFiniteAs<Native<double>>(values, count);
    case DType::kFloat16:
      return allFiniteAs<Float16>(values, count);
    case DType::kBFloat16:
      return allFiniteAs<Bfloat16>(values, count);
    default:
      return true;
  }
}

}  // namespace hipress
