// SPDX-License-Identifier: Apache-2.0
#include "core/element/finite.h"

#include <algorithm>
#include <cstdint>

#include "core/element/multiversion.h"
#include "core/element/unaligned.h"

namespace hipress {
namespace {

/// Elements of one look; more are looked at only if these are finite.
constexpr size_t kLook = 16384;

/// A value is finite unless all bits of its exponent are set.
template <typename Bits, Bits kExponent>
struct Finite {
  template <IsaLevel level>
  struct Kernel {
    static bool run(const Unaligned<Bits>* values, size_t count) {
      for (size_t begin = 0; begin < count; begin += kLook) {
        const size_t end = std::min(count, begin + kLook);
        Bits greatest = 0;
        for (size_t i = begin; i < end; ++i)
          greatest = std::max(greatest, static_cast<Bits>(values[i].value & kExponent));
        if (greatest == kExponent) return false;
      }
      return true;
    }
  };
};

template <typename Bits, Bits kExponent>
bool finite(const void* values, size_t count) {
  return multiversion<Finite<Bits, kExponent>::template Kernel>(static_cast<const Unaligned<Bits>*>(values),
                                                                count);
}

}  // namespace

bool allFinite(const void* values, DType dtype, size_t count) {
  switch (dtype) {
    case DType::kFloat32:
      return finite<uint32_t, 0x7f800000U>(values, count);
    case DType::kFloat64:
      return finite<uint64_t, 0x7ff0000000000000U>(values, count);
    case DType::kFloat16:
      return finite<uint16_t, 0x7c00U>(values, count);
    case DType::kBFloat16:
      return finite<uint16_t, 0x7f80U>(values, count);
    default:
      return true;
  }
}

}  // namespace hipress
