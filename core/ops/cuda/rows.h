// SPDX-License-Identifier: Apache-2.0
//
// Loads and stores of some successive elements by one thread: of 4, 8 or 16 bytes at once, where the address
// is a multiple of them. Block::rows() calls them with one element or with kRow, at a multiple of kRow.
#pragma once

#include <cstring>

#include "core/ops/cuda/execution.h"
#include "core/ops/cuda/pack.h"

namespace hipress::cuda {

/// A value of an element, for kernels that have one.
template <typename T>
struct One {
  T value;
};

/// Of elements that nothing is loaded for, or that leave nothing.
struct None {};
struct Nowhere {
  template <unsigned number, typename Some>
  HIPRESS_DEVICE void operator()(unsigned, Row<number>, Some*) const {}
};

template <typename T>
HIPRESS_DEVICE bool isAligned(const T* at, size_t bytes) {
  return reinterpret_cast<uintptr_t>(at) % bytes == 0;
}

/// given[k].member = at[k]. No thread of the kernel writes the values.
template <typename T, typename Given, typename Member>
HIPRESS_DEVICE void loadRow(Row<1>, const T* at, Given* given, Member Given::* member) {
  given->*member = load(at);
}

/// The same for values that the thread writes later.
template <typename T, typename Given, typename Member>
HIPRESS_DEVICE void readRow(Row<1>, const T* at, Given* given, Member Given::* member) {
  given->*member = *at;
}

/// at[k] = made[k].member.
template <typename T, typename Made, typename Member>
HIPRESS_DEVICE void storeRow(Row<1>, T* at, const Made* made, Member Made::* member) {
  *at = made->*member;
}

/// given[k].member = the code of an element in a field of codes.
template <typename Field, typename Given, typename Member>
HIPRESS_DEVICE void unpackRow(Row<1>, const Field* field, int32_t element, unsigned width, Given* given,
                              Member Given::* member) {
  given->*member = unpackAt(field, element, width);
}

template <typename T>
inline constexpr size_t kRowBytes = kRow * sizeof(T) < 16 ? kRow * sizeof(T) : 16;

/// values[k] = at[k], with words that `word` loads.
template <typename T, typename LoadWord>
HIPRESS_DEVICE void takeRow(const T* at, T* values, LoadWord word) {
  constexpr size_t kBytes = kRowBytes<T>;
  if (isAligned(at, kBytes)) {
    HIPRESS_UNROLL
    for (size_t each = 0; each < kRow * sizeof(T) / kBytes; ++each) {
      const Word<kBytes> loaded = word(reinterpret_cast<const Word<kBytes>*>(at) + each);
      std::memcpy(values + each * (kBytes / sizeof(T)), &loaded, kBytes);
    }
  } else {
    HIPRESS_UNROLL
    for (unsigned k = 0; k < kRow; ++k) values[k] = at[k];
  }
}

template <typename T, typename Given, typename Member>
HIPRESS_DEVICE void loadRow(Row<kRow>, const T* at, Given* given, Member Given::* member) {
  T values[kRow];
  takeRow(at, values, [](const auto* from) { return load(from); });
  HIPRESS_UNROLL
  for (unsigned k = 0; k < kRow; ++k) given[k].*member = values[k];
}

template <typename T, typename Given, typename Member>
HIPRESS_DEVICE void readRow(Row<kRow>, const T* at, Given* given, Member Given::* member) {
  T values[kRow];
  takeRow(at, values, [](const auto* from) { return *from; });
  HIPRESS_UNROLL
  for (unsigned k = 0; k < kRow; ++k) given[k].*member = values[k];
}

template <typename T, typename Made, typename Member>
HIPRESS_DEVICE void storeRow(Row<kRow>, T* at, const Made* made, Member Made::* member) {
  constexpr size_t kBytes = kRowBytes<T>;
  T values[kRow];
  HIPRESS_UNROLL
  for (unsigned k = 0; k < kRow; ++k) values[k] = made[k].*member;
  if (isAligned(at, kBytes)) {
    HIPRESS_UNROLL
    for (size_t each = 0; each < kRow * sizeof(T) / kBytes; ++each) {
      Word<kBytes> word;
      std::memcpy(&word, values + each * (kBytes / sizeof(T)), kBytes);
      reinterpret_cast<Word<kBytes>*>(at)[each] = word;
    }
  } else {
    HIPRESS_UNROLL
    for (unsigned k = 0; k < kRow; ++k) at[k] = values[k];
  }
}

template <typename Given, typename Member>
HIPRESS_DEVICE void unpackRow(Row<kRow>, const uint8_t* field, int32_t element, unsigned width, Given* given,
                              Member Given::* member) {
  static_assert(kRow == 4);
  const uint8_t* const at = field + static_cast<size_t>(element) * width / 8;
  unsigned bits = 0;
  if (width == 8 && isAligned(at, 4)) {
    bits = load(reinterpret_cast<const uint32_t*>(at));
  } else if (width == 4 && isAligned(at, 2)) {
    bits = load(reinterpret_cast<const uint16_t*>(at));
  } else if (width == 2) {
    bits = load(at);
  } else if (width == 1) {
    bits = static_cast<unsigned>(load(at)) >> (static_cast<unsigned>(element) % 8);
  } else {
    HIPRESS_UNROLL
    for (unsigned k = 0; k < kRow; ++k)
      given[k].*member = unpackAt(field, element + static_cast<int32_t>(k), width);
    return;
  }
  HIPRESS_UNROLL
  for (unsigned k = 0; k < kRow; ++k)
    given[k].*member = static_cast<int32_t>((bits >> (k * width)) & ((1u << width) - 1u));
}

template <typename Given, typename Member>
HIPRESS_DEVICE void unpackRow(Row<kRow>, const uint16_t* field, int32_t element, unsigned, Given* given,
                              Member Given::* member) {
  uint16_t values[kRow];
  takeRow(field + element, values, [](const auto* from) { return load(from); });
  HIPRESS_UNROLL
  for (unsigned k = 0; k < kRow; ++k) given[k].*member = values[k];
}
}  // namespace hipress::cuda
