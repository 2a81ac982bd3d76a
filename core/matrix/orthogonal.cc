// SPDX-License-Identifier: Apache-2.0
#include "core/matrix/orthogonal.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/element/multiversion.h"

namespace hipress {
namespace {

constexpr size_t kLanes = 16;
/// A vector of which a smaller part is left has only rounding errors: 2^-22.
constexpr double kRounding = 2.384185791015625e-7;

template <typename Other>
double sumOfProducts(const double* values, const Other* others, size_t count) {
  alignas(64) double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += values[i + lane] * static_cast<double>(others[i + lane]);
  }
  for (size_t lane = 0; i < count; ++i, ++lane) lanes[lane] += values[i] * static_cast<double>(others[i]);
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

/// Makes values orthogonal to a vector of length 1.
template <IsaLevel level>
struct Remove {
  static void run(double* values, const float* unit, size_t count) {
    const double part = sumOfProducts(values, unit, count);
    for (size_t i = 0; i < count; ++i) values[i] -= part * static_cast<double>(unit[i]);
  }
};

template <IsaLevel level>
struct Square {
  static double run(const double* values, size_t count) { return sumOfProducts(values, values, count); }
};

/// Makes vector k orthogonal to the earlier ones, with length 1. Returns false and leaves it if none remains.
bool orthogonalizeOne(Factor factor, size_t k, std::vector<double>& values) {
  float* const vector = factor.vector(k);
  float largest = 0.0f;
  for (size_t i = 0; i < factor.length; ++i) largest = std::max(largest, std::fabs(vector[i]));
  if (largest == 0.0f) return false;
  // Scaled values: the squares of the rest neither overflow nor vanish.
  for (size_t i = 0; i < factor.length; ++i) values[i] = static_cast<double>(vector[i]) / largest;
  const auto length = [&] {
    return std::sqrt(multiversion<Square>(static_cast<const double*>(values.data()), factor.length));
  };
  const double before = length();
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t other = 0; other < k; ++other)
      multiversion<Remove>(values.data(), static_cast<const float*>(factor.vector(other)), factor.length);
  }
  const double left = length();
  if (left <= kRounding * before) return false;
  for (size_t i = 0; i < factor.length; ++i) vector[i] = static_cast<float>(values[i] / left);
  return true;
}

void draw(Factor factor, size_t k, uint32_t step) {
  for (size_t i = 0; i < factor.length; ++i) factor.vector(k)[i] = drawn(step, k, i);
}

}  // namespace

float drawn(uint32_t step, size_t vector, size_t index) {
  uint64_t mixed = ((uint64_t{step} << 40) ^ (uint64_t{vector} << 32) ^ index) + 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  mixed ^= mixed >> 31;
  return static_cast<float>(static_cast<int32_t>(mixed >> 40) - (1 << 23)) / static_cast<float>(1 << 23);
}

void orthogonalize(Factor factor) {
  std::vector<double> values(factor.length);
  for (size_t k = 0; k < factor.vectors; ++k) {
    if (!orthogonalizeOne(factor, k, values)) std::fill_n(factor.vector(k), factor.length, 0.0f);
  }
}

void orthogonalizeOrDraw(Factor factor, uint32_t step) {
  std::vector<double> values(factor.length);
  for (size_t k = 0; k < factor.vectors; ++k) {
    if (orthogonalizeOne(factor, k, values)) continue;
    draw(factor, k, step);
    // A drawn vector depends on the earlier ones only if it has no more elements than there are of them.
    if (!orthogonalizeOne(factor, k, values)) std::fill_n(factor.vector(k), factor.length, 0.0f);
  }
}

}  // namespace hipress
