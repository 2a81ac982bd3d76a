// SPDX-License-Identifier: Apache-2.0
//
// exp, log, cos and powers of two. Libraries of different devices give other last bits, so these are sums,
// products and quotients of doubles in a fixed order: that of compll/python/ir/exponentials.py and
// functions.py, which define them. They choose and never branch, so that loops over them vectorise.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/ops/host_device.h"
#include "core/ops/scalar.h"

namespace hipress::ops {

namespace detail {

HIPRESS_HOST_DEVICE inline uint64_t bitsOfDouble(double x) {
#if defined(__CUDA_ARCH__)
  return static_cast<uint64_t>(__double_as_longlong(x));
#else
  return __builtin_bit_cast(uint64_t, x);
#endif
}
HIPRESS_HOST_DEVICE inline double doubleOf(uint64_t bits) {
#if defined(__CUDA_ARCH__)
  return __longlong_as_double(static_cast<long long>(bits));
#else
  return __builtin_bit_cast(double, bits);
#endif
}

inline constexpr double kTwo52 = 4503599627370496.0;
// ln 2 in two parts. A product of the first one and a whole number below 2^11 is exact.
inline constexpr double kLn2High = 0x1.62e42feep-1;
inline constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

/// 2^k for whole k from −1022 to 1023. The sum has k + 1023 as its lowest bits.
HIPRESS_HOST_DEVICE inline double powerOfTwo(double k) {
  return doubleOf(bitsOfDouble(k + (kTwo52 + 1023.0)) << 52);
}

/// x = k·ln 2 + rest, and e^rest is its Taylor series.
HIPRESS_HOST_DEVICE inline double exponential(double x) {
  // Beyond these bounds the result is infinite or 0. NaN passes both comparisons.
  const double below = x > 710.0 ? 710.0 : x;
  const double bounded = below < -746.0 ? -746.0 : below;
  const double k = std::rint(bounded * 0x1.71547652b82fep+0);
  const double rest = (bounded - k * kLn2High) - k * kLn2Low;
  double series = 1.0;
  for (int n = 14; n >= 1; --n) series = 1.0 + rest * (1.0 / n) * series;
  // 2^k may be no normal number, and two factors round once.
  const double half = std::floor(0.5 * k);
  const double value = series * powerOfTwo(half) * powerOfTwo(k - half);
  return x == x ? value : x;
}

/// x = m·2^k with m from √½ to √2, and ln m = 2 artanh((m − 1) / (m + 1)).
HIPRESS_HOST_DEVICE inline double logarithm(double x) {
  const bool tiny = x < 0x1p-1022;
  const uint64_t bits = bitsOfDouble(tiny ? x * 0x1p54 : x);
  const double whole = doubleOf(bits >> 52 | 0x4330000000000000u) - (kTwo52 + 1023.0);
  const double part = doubleOf((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
  const bool large = part > 0x1.6a09e667f3bcdp+0;
  const double m = large ? 0.5 * part : part;
  const double k = (large ? whole + 1.0 : whole) - (tiny ? 54.0 : 0.0);
  const double quotient = (m - 1.0) / (m + 1.0), square = quotient * quotient;
  double series = 0.0;
  for (int n = 23; n >= 3; n -= 2) series = square * (1.0 / n + series);
  const double value = k * kLn2High + (2.0 * quotient + (2.0 * quotient * series + k * kLn2Low));
  const double infinity = doubleOf(0x7ff0000000000000u);
  const double positive = x == infinity ? x : value;
  const double known = x == 0.0 ? -infinity : positive;
  return x >= 0.0 ? known : infinity - infinity;
}

/// 1 − z/(a(a+1)) (1 − z/((a+2)(a+3)) (1 − …)): 9 brackets.
HIPRESS_HOST_DEVICE inline double seriesOf(double z, int a) {
  double total = 1.0;
  for (int divisor = a + 16; divisor >= a; divisor -= 2)
    total = 1.0 - z / (divisor * (divisor + 1.0)) * total;
  return total;
}

}  // namespace detail

// The results are computed in double and rounded once.

template <typename T>
HIPRESS_HOST_DEVICE inline T expOf(T x) {
  return static_cast<T>(detail::exponential(static_cast<double>(x)));
}
template <typename T>
HIPRESS_HOST_DEVICE inline T logOf(T x) {
  return static_cast<T>(detail::logarithm(static_cast<double>(x)));
}

/// cos(π x).
template <typename T>
HIPRESS_HOST_DEVICE inline T cosineOfPi(T x) {
  constexpr double kPi = 3.14159265358979311600;
  double turn = absolute(static_cast<double>(x));
  turn = turn - 2.0 * std::floor(turn / 2.0);
  turn = turn > 1.0 ? 2.0 - turn : turn;
  const double rest = turn > 0.5 ? 1.0 - turn : turn;
  const double near = kPi * rest, far = kPi * (0.5 - rest);
  const double cosine = detail::seriesOf(near * near, 1), sine = far * detail::seriesOf(far * far, 2);
  const double value = rest > 0.25 ? sine : cosine;
  return static_cast<T>(turn > 0.5 ? -value : value);
}

/// The k with 2^k ≤ |x| < 2^(k+1): from −149 to 127; −150 for 0, 128 for infinities and NaN.
HIPRESS_HOST_DEVICE inline int32_t exponentOf(float x) {
  const float magnitude = absolute(x);
  const bool tiny = magnitude < 0x1p-126f;
  return (bitsOf(tiny ? magnitude * 0x1p23f : magnitude) >> 23 & 255) - (tiny ? 150 : 127);
}
/// The same of a double: from −1074 to 1023; −1075 for 0, 1024 for infinities and NaN.
HIPRESS_HOST_DEVICE inline int32_t exponentOf(double x) {
  const double magnitude = absolute(x);
  const bool tiny = magnitude < 0x1p-1022;
  const uint64_t bits = detail::bitsOfDouble(tiny ? magnitude * 0x1p52 : magnitude);
  return static_cast<int32_t>(bits >> 52 & 2047) - (tiny ? 1075 : 1023);
}

/// 2^k in float: infinite above 127, 0 below −149.
HIPRESS_HOST_DEVICE inline float powerOfTwo(int32_t k) {
  const int32_t notAbove = k < 128 ? k : 128;
  const int32_t bounded = notAbove > -150 ? notAbove : -150;
  const int32_t half = bounded >> 1;
  return floatOf((half + 127) << 23) * floatOf((bounded - half + 127) << 23);
}

}  // namespace hipress::ops
