// SPDX-License-Identifier: Apache-2.0
//
// The meaning of CompLL's scalar expressions, on processors and CUDA devices. No operation fails: int32 wraps
// around, and conversions saturate and make 0 of NaN. Operations that C++ and the language define alike (sums
// of floats, comparisons, &, |, ^) are not here. All code chooses between computed values and never branches,
// so that loops over these functions vectorise. Translation units need -ffp-contract=off.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/ops/host_device.h"
#include "core/ops/philox.h"

namespace hipress::ops {

inline constexpr int32_t kLeastInt = -2147483647 - 1;
inline constexpr int32_t kGreatestInt = 2147483647;

// Integers: the code computes in uint32_t, where C++ defines the wrap.

HIPRESS_HOST_DEVICE constexpr int32_t addInt(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
HIPRESS_HOST_DEVICE constexpr int32_t subtractInt(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b));
}
HIPRESS_HOST_DEVICE constexpr int32_t multiplyInt(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}
HIPRESS_HOST_DEVICE constexpr int32_t negateInt(int32_t a) {
  return static_cast<int32_t>(0u - static_cast<uint32_t>(a));
}

/// a / b, cut towards zero; 0 if b is 0. The least integer divided by −1 wraps to itself.
HIPRESS_HOST_DEVICE constexpr int32_t divideInt(int32_t a, int32_t b) {
  const bool special = (b == 0) | (b == -1);
  const int32_t divisor = special ? 1 : b;
#if defined(__CUDA_ARCH__)
  const int32_t quotient = a / divisor;
#else
  // Exact in double: a quotient of int32 is an integer, or further from an integer than rounding can move it.
  // Processors have vector instructions for double divisions, but none for integer ones.
  const auto quotient = static_cast<int32_t>(static_cast<double>(a) / static_cast<double>(divisor));
#endif
  const int32_t otherwise = b == 0 ? 0 : negateInt(a);
  return special ? otherwise : quotient;
}

/// a − (a / b) · b, which is a if b is 0.
HIPRESS_HOST_DEVICE constexpr int32_t remainderInt(int32_t a, int32_t b) {
  return subtractInt(a, multiplyInt(divideInt(a, b), b));
}

HIPRESS_HOST_DEVICE constexpr int32_t shiftLeft(int32_t a, int32_t count) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) << (count & 31));
}
/// Keeps the sign.
HIPRESS_HOST_DEVICE constexpr int32_t shiftRight(int32_t a, int32_t count) {
  return a >> (count & 31);
}

// Functions of float, double and int32_t.

/// min(a, b) of the language: a NaN in b loses, and a NaN in a stays.
template <typename T>
HIPRESS_HOST_DEVICE constexpr T lesser(T a, T b) {
  return b < a ? b : a;
}
/// max(a, b) of the language.
template <typename T>
HIPRESS_HOST_DEVICE constexpr T greater(T a, T b) {
  return b > a ? b : a;
}

HIPRESS_HOST_DEVICE inline float absolute(float x) {
  return std::fabs(x);
}
HIPRESS_HOST_DEVICE inline double absolute(double x) {
  return std::fabs(x);
}
HIPRESS_HOST_DEVICE constexpr int32_t absolute(int32_t x) {
  return x < 0 ? negateInt(x) : x;
}

/// −1, 0 or 1; 0 for NaN.
template <typename T>
HIPRESS_HOST_DEVICE constexpr T signOf(T x) {
  return static_cast<T>(static_cast<int32_t>(x > T{0}) - static_cast<int32_t>(x < T{0}));
}

// Conversions.

HIPRESS_HOST_DEVICE constexpr int32_t toInt(int32_t x) {
  return x;
}
HIPRESS_HOST_DEVICE constexpr int32_t toInt(double x) {
  const bool below = x < -2147483648.0;
  const bool above = x >= 2147483648.0;
  const bool inside = (x >= -2147483648.0) & (x < 2147483648.0);  // false for NaN
  const auto cut = static_cast<int32_t>(inside ? x : 0.0);
  const int32_t notAbove = above ? kGreatestInt : cut;
  return below ? kLeastInt : notAbove;
}
HIPRESS_HOST_DEVICE constexpr int32_t toInt(float x) {
  const bool below = x < -2147483648.0f;
  const bool above = x >= 2147483648.0f;
  const bool inside = (x >= -2147483648.0f) & (x < 2147483648.0f);
  const auto cut = static_cast<int32_t>(inside ? x : 0.0f);
  const int32_t notAbove = above ? kGreatestInt : cut;
  return below ? kLeastInt : notAbove;
}

/// The nearest number of 0 … 2^bits − 1; `bits` is 1 to 8, 12 or 16.
template <typename T>
HIPRESS_HOST_DEVICE constexpr int32_t toUint(T x, uint32_t bits) {
  const T greatest = static_cast<T>((1u << bits) - 1u);
  const T notBelow = x > T{0} ? x : T{0};  // NaN compares false
  return static_cast<int32_t>(notBelow < greatest ? notBelow : greatest);
}

/// The nearest number of −2^(bits − 1) … 2^(bits − 1) − 1, and 0 for NaN; `bits` is 4 or 8.
template <typename T>
HIPRESS_HOST_DEVICE constexpr int32_t toSigned(T x, uint32_t bits) {
  const T greatest = static_cast<T>((1 << (bits - 1)) - 1);
  const T least = static_cast<T>(-(1 << (bits - 1)));
  const T notAbove = x < greatest ? x : greatest;
  // The choice for NaN comes last: if the cut number becomes a float again, GCC takes trunc(x), which can be
  // −0.
  const auto cut = static_cast<int32_t>(notAbove > least ? notAbove : least);
  return x == x ? cut : 0;
}

/// The number whose two's complement of `bits` bits is `code`.
HIPRESS_HOST_DEVICE constexpr int32_t signExtended(int32_t code, uint32_t bits) {
  const int32_t half = 1 << (bits - 1);
  return (code ^ half) - half;
}

/// bitcast<int32>: the bits of a float. The bits of a computed NaN differ between devices.
HIPRESS_HOST_DEVICE inline int32_t bitsOf(float x) {
#if defined(__CUDA_ARCH__)
  return __float_as_int(x);
#else
  return __builtin_bit_cast(int32_t, x);
#endif
}
/// bitcast<float>: the float of these bits.
HIPRESS_HOST_DEVICE inline float floatOf(int32_t bits) {
#if defined(__CUDA_ARCH__)
  return __int_as_float(bits);
#else
  return __builtin_bit_cast(float, bits);
#endif
}

/// toSigned() of the nearest whole number, halves to even. The sum rounds: its lowest bits are the bits of
/// the whole number, and the sums have the order of the numbers.
HIPRESS_HOST_DEVICE inline int32_t nearestSigned(float x, uint32_t bits) {
  constexpr int32_t zero = 0x4b400000;  // the bits of 1.5·2^23
  const int32_t greatest = zero + (1 << (bits - 1)) - 1;
  const int32_t least = zero - (1 << (bits - 1));
  const int32_t sum = bitsOf(x + 12582912.0f);
  const int32_t notAbove = sum < greatest ? sum : greatest;
  const int32_t clamped = notAbove > least ? notAbove : least;
  return x == x ? clamped - zero : 0;
}

template <typename T>
HIPRESS_HOST_DEVICE constexpr float toFloat(T x) {
  return static_cast<float>(x);
}
template <typename T>
HIPRESS_HOST_DEVICE constexpr double toDouble(T x) {
  return static_cast<double>(x);
}
/// NaN is true.
template <typename T>
HIPRESS_HOST_DEVICE constexpr bool toBool(T x) {
  return x != T{0};
}

// Functions of float and double.

template <typename T>
HIPRESS_HOST_DEVICE inline T floorOf(T x) {
  return std::floor(x);
}
template <typename T>
HIPRESS_HOST_DEVICE inline T ceilOf(T x) {
  return std::ceil(x);
}
/// Halves to even.
template <typename T>
HIPRESS_HOST_DEVICE inline T roundOf(T x) {
  return std::rint(x);
}
template <typename T>
HIPRESS_HOST_DEVICE inline T squareRoot(T x) {
  return std::sqrt(x);
}

HIPRESS_HOST_DEVICE inline bool isFinite(float x) {
  return absolute(x) <= 3.40282346638528859812e+38f;
}
HIPRESS_HOST_DEVICE inline bool isFinite(double x) {
  return absolute(x) <= 1.79769313486231570815e+308;
}

// Sizes and random numbers.

/// ⌈size / block⌉: the number of results of reduce_blocks. 0 unless both are positive.
HIPRESS_HOST_DEVICE constexpr int32_t blocksOf(int32_t size, int32_t block) {
  const bool some = (size > 0) & (block > 0);
  const int64_t divisor = some ? block : 1;
  return some ? static_cast<int32_t>((size + divisor - 1) / divisor) : 0;
}

/// random<float>: in [low, high), from the word's upper 24 bits. Every operation is rounded to float.
HIPRESS_HOST_DEVICE constexpr float uniform(uint32_t word, float low, float high) {
  const float unit = static_cast<float>(static_cast<int32_t>(word >> 8)) * (1.0f / 16777216.0f);
  if (low == 0.0f && high == 1.0f)
    return unit;  // the value below, without an addition that compilers must keep
  return low + unit * (high - low);
}

/// The same for the word of 16 bits: 1 + unit has these bits as the upper bits of its mantissa.
HIPRESS_HOST_DEVICE inline float uniform(HalfWord word, float low, float high) {
  const float oneAndUnit = floatOf(static_cast<int32_t>(0x3f800040u | static_cast<uint32_t>(word.half) << 7));
  const float unit = oneAndUnit - 1.0f;
  // The unit and such a `low` are multiples of 2^-17 below 64, so no sum of them is rounded.
  const bool exact = low > -32.0f && low < 32.0f && low * 65536.0f == std::floor(low * 65536.0f);
  if (high - low == 1.0f && exact) return oneAndUnit + (low - 1.0f);
  return low + unit * (high - low);
}

/// random<int>: one of low … high − 1; `low` if there is none.
HIPRESS_HOST_DEVICE constexpr int32_t uniformInt(uint32_t word, int32_t low, int32_t high) {
  const uint32_t span = low < high ? static_cast<uint32_t>(high) - static_cast<uint32_t>(low) : 0u;
  const uint64_t scaled = static_cast<uint64_t>(word) * span;
  return addInt(low, static_cast<int32_t>(static_cast<uint32_t>(scaled >> 32)));
}

}  // namespace hipress::ops
