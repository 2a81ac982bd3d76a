// SPDX-License-Identifier: Apache-2.0
//
// C entry points to the operator library for ctypes. Kernels run at the level that set_level() has chosen.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/element/multiversion.h"
#include "core/ops/cpu/blocks/block_select.h"
#include "core/ops/cpu/candidates.h"
#include "core/ops/cpu/compact.h"
#include "core/ops/cpu/finite.h"
#include "core/ops/cpu/indices.h"
#include "core/ops/cpu/order.h"
#include "core/ops/cpu/pack.h"
#include "core/ops/cpu/packing/block_codes.h"
#include "core/ops/cpu/philox.h"
#include "core/ops/cpu/reduce.h"
#include "core/ops/cpu/scratch.h"
#include "core/ops/cpu/stream.h"
#include "core/ops/exponentials.h"
#include "core/ops/float16.h"
#include "core/ops/philox.h"
#include "core/ops/scalar.h"
#include "core/ops/tile.h"

namespace {

using namespace hipress;
using namespace hipress::ops;

/// result[i] = operation(a[i], b[i]) in its own loop, like the loops of generated code.
template <typename A, typename B, typename Result, auto operation>
struct Elementwise {
  template <IsaLevel>
  struct Kernel {
    static void run(const A* __restrict a, const B* __restrict b, Result* __restrict result, size_t count) {
      for (size_t i = 0; i < count; ++i) result[i] = operation(a[i], b[i]);
    }
  };
};

template <typename T, typename Element, typename Combine>
struct Reduction {
  template <IsaLevel level>
  struct Kernel {
    static T run(const Element* values, size_t count, T* partials) {
      BlockReducer<level, T, Combine> block;
      size_t blocks = 0;
      for (size_t begin = 0; begin < count; begin += kReduceBlock) {
        const size_t end = count - begin < kReduceBlock ? count : begin + kReduceBlock;
        for (size_t at = begin; at < end; at += kTile) {
          block.feed(values + at, end - at < kTile ? end - at : kTile);
        }
        partials[blocks++] = block.finish();
      }
      return reducePartials(partials, blocks, Combine());
    }
  };
};

/// A Combine for which the library has no special code.
struct Half {
  double operator()(double a, double b) const { return a * 0.5 + b; }
};

template <IsaLevel level>
struct Pack {
  static void run(const uint8_t* codes, size_t count, uint32_t width, uint8_t* field, size_t first) {
    packTile<level>(codes, count, width, field, first);
  }
};
template <IsaLevel level>
struct Unpack {
  static void run(const uint8_t* field, size_t first, size_t count, uint32_t width, int32_t* codes) {
    unpackTile<level>(field, first, count, width, codes);
  }
};
template <IsaLevel level>
struct PackBlock {
  static void run(const uint8_t* codes, size_t first, size_t count, int32_t width, int32_t* block) {
    packTileOfBlock<level>(codes, first, count, width, block);
  }
};
template <IsaLevel level>
struct UnpackBlock {
  static void run(const int32_t* block, size_t first, size_t count, int32_t width, int32_t* codes) {
    alignas(64) BlockCode<level> unpacked[kBlockTile];
    unpackTileOfBlock<level>(block, first, count, width, unpacked);
    for (size_t i = 0; i < count; ++i) codes[i] = unpacked[i];
  }
};
template <IsaLevel level>
struct Philox {
  template <typename Word>
  static void run(RandomKey key, uint32_t site, uint64_t first, size_t count, Word* words) {
    philoxTile<level>(key, site, first, count, words);
  }
};
template <IsaLevel level>
struct CompactIndices {
  static size_t run(const int32_t* keep, size_t count, int32_t first, int32_t* out) {
    return compactIndices<level>(keep, count, first, out);
  }
};
template <typename T>
struct CompactValues {
  template <IsaLevel level>
  struct Kernel {
    static size_t run(const int32_t* keep, const T* values, size_t count, T* out) {
      return compactValues<level>(keep, values, count, out);
    }
  };
};
template <typename Key>
struct CompactUpTo {
  template <IsaLevel level>
  struct Kernel {
    static size_t run(const Key* keys, size_t count, Key limit, int32_t first, int32_t* positions, Key* kept,
                      bool many) {
      using ops::detail::Kept;
      if (many)
        return ops::detail::compactUpTo<level, Kept::kMany>(keys, count, limit, first, positions, kept);
      return ops::detail::compactUpTo<level, Kept::kFew>(keys, count, limit, first, positions, kept);
    }
  };
};
template <IsaLevel level>
struct SelectBlocks {
  static size_t run(const uint32_t* keys, size_t count, size_t block, size_t each, int32_t* out) {
    BlockSelect<level> select(std::min(block, count), each);
    size_t found = 0;
    for (size_t first = 0; first < count; first += block) {
      const size_t size = std::min(block, count - first);
      for (size_t tile = 0; tile < size; tile += kBlockTile) {
        const size_t part = std::min(kBlockTile, size - tile);
        std::memcpy(select.add(part), keys + first + tile, part * sizeof(*keys));
      }
      select.finish(first, out + found);
      found += std::min(each, size);
    }
    return found;
  }
};
template <IsaLevel level>
struct Store {
  static void run(float* destination, const float* tile, size_t count, bool stream) {
    storeTile<level>(destination, tile, count, stream);
  }
};
template <IsaLevel level>
struct FirstOutside {
  static size_t run(const int32_t* indices, size_t count, size_t size) {
    return firstOutside<level>(indices, count, size);
  }
};
template <IsaLevel level>
struct FirstFalling {
  static size_t run(const int32_t* indices, size_t count) { return firstFalling<level>(indices, count); }
};

}  // namespace

extern "C" {

int best_level() {
  return static_cast<int>(bestIsaLevel());
}
void set_level(int level) {
  setIsaLevel(static_cast<IsaLevel>(level));
}

#define ELEMENTWISE(name, A, B, Result, expression)                                       \
  void name(const A* a, const B* b, Result* result, size_t count) {                       \
    constexpr auto operation = []([[maybe_unused]] A x, [[maybe_unused]] B y) -> Result { \
      return static_cast<Result>(expression);                                             \
    };                                                                                    \
    multiversion<Elementwise<A, B, Result, operation>::Kernel>(a, b, result, count);      \
  }
ELEMENTWISE(int_add, int32_t, int32_t, int32_t, addInt(x, y))
ELEMENTWISE(int_subtract, int32_t, int32_t, int32_t, subtractInt(x, y))
ELEMENTWISE(int_multiply, int32_t, int32_t, int32_t, multiplyInt(x, y))
ELEMENTWISE(int_divide, int32_t, int32_t, int32_t, divideInt(x, y))
ELEMENTWISE(int_remainder, int32_t, int32_t, int32_t, remainderInt(x, y))
ELEMENTWISE(int_shift_left, int32_t, int32_t, int32_t, shiftLeft(x, y))
ELEMENTWISE(int_shift_right, int32_t, int32_t, int32_t, shiftRight(x, y))
ELEMENTWISE(int_negate, int32_t, int32_t, int32_t, negateInt(x))
ELEMENTWISE(int_blocks, int32_t, int32_t, int32_t, blocksOf(x, y))
#define FOR_TYPE(prefix, T)                                        \
  ELEMENTWISE(prefix##_min, T, T, T, lesser(x, y))                 \
  ELEMENTWISE(prefix##_max, T, T, T, greater(x, y))                \
  ELEMENTWISE(prefix##_abs, T, T, T, absolute(x))                  \
  ELEMENTWISE(prefix##_sign, T, T, T, signOf(x))                   \
  ELEMENTWISE(prefix##_to_int, T, T, int32_t, toInt(x))            \
  ELEMENTWISE(prefix##_to_uint, T, int32_t, int32_t, toUint(x, y)) \
  ELEMENTWISE(prefix##_to_float, T, T, float, toFloat(x))          \
  ELEMENTWISE(prefix##_to_double, T, T, double, toDouble(x))       \
  ELEMENTWISE(prefix##_to_bool, T, T, int32_t, toBool(x))
FOR_TYPE(int, int32_t)
FOR_TYPE(float, float)
FOR_TYPE(double, double)
#define FOR_REAL(prefix, T)                          \
  ELEMENTWISE(prefix##_floor, T, T, T, floorOf(x))   \
  ELEMENTWISE(prefix##_ceil, T, T, T, ceilOf(x))     \
  ELEMENTWISE(prefix##_round, T, T, T, roundOf(x))   \
  ELEMENTWISE(prefix##_sqrt, T, T, T, squareRoot(x)) \
  ELEMENTWISE(prefix##_exp, T, T, T, expOf(x))       \
  ELEMENTWISE(prefix##_log, T, T, T, logOf(x))       \
  ELEMENTWISE(prefix##_isfinite, T, T, int32_t, isFinite(x))
FOR_REAL(float, float)
FOR_REAL(double, double)
ELEMENTWISE(to_float16, float, float, float, toFloat16(x))
ELEMENTWISE(float16_bits, float, float, int32_t, float16Bits(x))
ELEMENTWISE(float16_of, int32_t, int32_t, float, float16Of(x))

void uniform_float(const uint32_t* words, float low, float high, float* result, size_t count) {
  for (size_t i = 0; i < count; ++i) result[i] = uniform(words[i], low, high);
}
void uniform_half(const uint16_t* halves, float low, float high, float* result, size_t count) {
  for (size_t i = 0; i < count; ++i) result[i] = uniform(halfWord(halves[i]), low, high);
}
void nearest_signed(const float* values, uint32_t bits, int32_t* result, size_t count) {
  for (size_t i = 0; i < count; ++i) result[i] = nearestSigned(values[i], bits);
}
void uniform_int(const uint32_t* words, int32_t low, int32_t high, int32_t* result, size_t count) {
  for (size_t i = 0; i < count; ++i) result[i] = uniformInt(words[i], low, high);
}

#define REDUCTIONS(suffix, T, Element)                                                     \
  T sum_##suffix(const Element* values, size_t count, T* partials) {                       \
    return multiversion<Reduction<T, Element, Sum>::Kernel>(values, count, partials);      \
  }                                                                                        \
  T least_##suffix(const Element* values, size_t count, T* partials) {                     \
    return multiversion<Reduction<T, Element, Least>::Kernel>(values, count, partials);    \
  }                                                                                        \
  T greatest_##suffix(const Element* values, size_t count, T* partials) {                  \
    return multiversion<Reduction<T, Element, Greatest>::Kernel>(values, count, partials); \
  }
REDUCTIONS(int_int, int32_t, int32_t)
REDUCTIONS(float_int, float, int32_t)
REDUCTIONS(float_float, float, float)
REDUCTIONS(double_int, double, int32_t)
REDUCTIONS(double_float, double, float)
REDUCTIONS(double_double, double, double)
double half_double_float(const float* values, size_t count, double* partials) {
  return multiversion<Reduction<double, float, Half>::Kernel>(values, count, partials);
}

void pack_tile(const uint8_t* codes, size_t count, uint32_t width, uint8_t* field, size_t first) {
  multiversion<Pack>(codes, count, width, field, first);
}
void unpack_tile(const uint8_t* field, size_t first, size_t count, uint32_t width, int32_t* codes) {
  multiversion<Unpack>(field, first, count, width, codes);
}
void pack_tile_of_block(const uint8_t* codes, size_t first, size_t count, int32_t width, int32_t* block) {
  multiversion<PackBlock>(codes, first, count, width, block);
}
void unpack_tile_of_block(const int32_t* block, size_t first, size_t count, int32_t width, int32_t* codes) {
  multiversion<UnpackBlock>(block, first, count, width, codes);
}
bool padding_is_zero(const uint8_t* field, size_t count, uint32_t width) {
  return paddingIsZero(field, count, width);
}

void philox_tile(uint64_t seed, uint64_t step, uint32_t tensor, uint64_t first_element, uint32_t site,
                 uint64_t first, size_t count, uint32_t* words) {
  multiversion<Philox>(RandomKey{seed, step, tensor, first_element}, site, first, count, words);
}
void philox_half_tile(uint64_t seed, uint64_t step, uint32_t tensor, uint64_t first_element, uint32_t site,
                      uint64_t first, size_t count, uint16_t* words) {
  multiversion<Philox>(RandomKey{seed, step, tensor, first_element}, site, first, count, words);
}
uint32_t philox_word(uint64_t seed, uint64_t step, uint32_t tensor, uint64_t first_element, uint32_t site,
                     uint64_t element) {
  return philoxWord(RandomKey{seed, step, tensor, first_element}, site, element);
}

uint32_t philox_half_word(uint64_t seed, uint64_t step, uint32_t tensor, uint64_t first_element,
                          uint32_t site, uint64_t element) {
  return philoxHalfWord(RandomKey{seed, step, tensor, first_element}, site, element);
}

size_t compact_indices(const int32_t* keep, size_t count, int32_t first, int32_t* out) {
  return multiversion<CompactIndices>(keep, count, first, out);
}
size_t compact_floats(const int32_t* keep, const float* values, size_t count, float* out) {
  return multiversion<CompactValues<float>::Kernel>(keep, values, count, out);
}
size_t compact_doubles(const int32_t* keep, const double* values, size_t count, double* out) {
  return multiversion<CompactValues<double>::Kernel>(keep, values, count, out);
}

size_t select_blocks(const uint32_t* keys, size_t count, size_t block, size_t each, int32_t* out) {
  return multiversion<SelectBlocks>(keys, count, block, each, out);
}

#define CANDIDATES(Key)                                                                                   \
  size_t Key##_up_to(const Key##_t* keys, size_t count, Key##_t limit, int32_t first, int32_t* positions, \
                     Key##_t* kept, bool many) {                                                          \
    return multiversion<CompactUpTo<Key##_t>::Kernel>(keys, count, limit, first, positions, kept, many);  \
  }                                                                                                       \
  Key##_t Key##_likely_limit(const Key##_t* keys, size_t count, size_t first) {                           \
    return likelyLimit<Key##_t>(count, first, [keys](size_t i) { return keys[i]; });                      \
  }
CANDIDATES(uint32)
CANDIDATES(uint64)

bool all_finite_scaled(const float* values, size_t count, float scale) {
  return allFiniteScaled(values, count, scale);
}
void store_tile(float* destination, const float* tile, size_t count, bool stream) {
  multiversion<Store>(destination, tile, count, stream);
  streamFence();
}
size_t first_outside(const int32_t* indices, size_t count, size_t size) {
  return multiversion<FirstOutside>(indices, count, size);
}
size_t first_falling(const int32_t* indices, size_t count) {
  return multiversion<FirstFalling>(indices, count);
}

#define ORDERS(prefix, T, Key)                                                               \
  void prefix##_keys(const T* values, Key* keys, size_t count) {                             \
    for (size_t i = 0; i < count; ++i) keys[i] = orderKey(values[i]);                        \
  }                                                                                          \
  size_t prefix##_position_of_rank(const Key* keys, size_t count, size_t rank) {             \
    return positionOfRank(keys, count, rank);                                                \
  }                                                                                          \
  void prefix##_stable_order(const Key* keys, size_t count, uint32_t* positions) {           \
    stableOrder(keys, count, positions);                                                     \
  }                                                                                          \
  void prefix##_smallest(const Key* keys, size_t count, size_t k, uint32_t* positions) {     \
    smallest(keys, count, k, positions);                                                     \
  }                                                                                          \
  void prefix##_smallest_set(const Key* keys, size_t count, size_t k, uint32_t* positions) { \
    smallestSet(keys, count, k, positions);                                                  \
  }
ORDERS(int, int32_t, uint32_t)
ORDERS(float, float, uint32_t)
ORDERS(double, double, uint64_t)

/// The addresses of blocks with these sizes, taken at the same time; they are freed afterwards.
void scratch_blocks(const size_t* bytes, size_t count, uint8_t** addresses) {
  Scratch scratch;
  for (size_t i = 0; i < count; ++i) {
    addresses[i] = scratch.take<uint8_t>(bytes[i]);
    std::memset(addresses[i], static_cast<int>(i), bytes[i]);
  }
}
/// Appends 0 … count − 1 in groups, reserves more than it adds, and copies the numbers to `out`.
size_t append_numbers(size_t count, size_t group, int32_t* out) {
  Scratch scratch;
  Appender<int32_t> appender(scratch);
  for (size_t begin = 0; begin < count; begin += group) {
    const size_t here = count - begin < group ? count - begin : group;
    int32_t* place = appender.reserve(here + 16);
    for (size_t i = 0; i < here; ++i) place[i] = static_cast<int32_t>(begin + i);
    appender.added(here);
  }
  if (appender.size() != 0) std::memcpy(out, appender.data(), appender.size() * sizeof(int32_t));
  return appender.size();
}

}  // extern "C"
