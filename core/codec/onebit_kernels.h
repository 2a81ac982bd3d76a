// SPDX-License-Identifier: Apache-2.0
//
// onebit's loops. Encoding with error feedback takes two passes: the first reads gradient and residual and
// writes only the sign bits, because the means, and whether all values are finite, are known at its end; the
// second writes the residual.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/codec/onebit_lanes.h"
#include "core/element/multiversion.h"

namespace hipress::onebit {

struct SignSums {
  double negative = 0;
  double nonNegative = 0;
  size_t nonNegativeCount = 0;
};

/// Pass 1: sign bits of scale·input + residual (`residual` may be null), and the sums of each sign.
template <IsaLevel level>
struct Signs {
  static SignSums run(const float* input, const float* residual, float scale, size_t count, uint8_t* bits) {
    return residual != nullptr ? sum<true>(input, residual, scale, count, bits)
                               : sum<false>(input, input, scale, count, bits);
  }

  template <bool hasResidual>
  static SignSums sum(const float* input, const float* residual, float scale, size_t count, uint8_t* bits) {
    LaneSums<level> lanes;
    SignSums total;
    size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      const auto group =
          static_cast<uint16_t>(lanes.template add<hasResidual>(input + i, residual + i, scale));
      total.nonNegativeCount += static_cast<size_t>(std::popcount(group));
      std::memcpy(bits + i / 8, &group, sizeof(group));
    }
    if (i < count) {
      // The rest, filled up with zeros, which change no sum.
      const size_t rest = count - i;
      float lastInput[kLanes] = {};
      float lastResidual[kLanes] = {};
      std::copy_n(input + i, rest, lastInput);
      if constexpr (hasResidual) std::copy_n(residual + i, rest, lastResidual);
      const uint32_t all = lanes.template add<hasResidual>(lastInput, lastResidual, scale);
      const auto group = static_cast<uint16_t>(all & ((1u << rest) - 1));
      total.nonNegativeCount += static_cast<size_t>(std::popcount(group));
      std::memcpy(bits + i / 8, &group, (rest + 7) / 8);
    }
    double negative[kLanes];
    double nonNegative[kLanes];
    lanes.store(negative, nonNegative);
    for (size_t lane = 0; lane < kLanes; ++lane) {
      total.negative += negative[lane];
      total.nonNegative += nonNegative[lane];
    }
    return total;
  }
};

/// Pass 2: residual = scale·input + residual − decoded.
template <IsaLevel>
struct UpdateResidual {
  static void run(const float* input, float* residual, float scale, size_t count, float negative,
                  float nonNegative) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) {
      const float value = scale * input[i] + residual[i];
      residual[i] = value - (value >= 0 ? nonNegative : negative);
    }
  }
};

template <IsaLevel>
struct ExpandVectors {
  static constexpr size_t kWidth = 8;
  typedef float Floats __attribute__((vector_size(32)));
  typedef int32_t Masks __attribute__((vector_size(32)));
  static constexpr Masks kWeights = {1, 2, 4, 8, 16, 32, 64, 128};
};

/// Four floats are the widest vector that GCC handles well without AVX.
template <>
struct ExpandVectors<IsaLevel::kGeneric> {
  static constexpr size_t kWidth = 4;
  typedef float Floats __attribute__((vector_size(16)));
  typedef int32_t Masks __attribute__((vector_size(16)));
  static constexpr Masks kWeights = {1, 2, 4, 8};
};
template <>
struct ExpandVectors<IsaLevel::kV2> : ExpandVectors<IsaLevel::kGeneric> {};

/// output = or += the mean each bit stands for.
template <bool accumulate>
struct Expand {
  template <IsaLevel level>
  struct Kernel {
    static void run(const uint8_t* bits, float negative, float nonNegative, float* output, size_t count) {
      using Vectors = ExpandVectors<level>;
      using Floats = typename Vectors::Floats;
      using Masks = typename Vectors::Masks;
      const Floats negatives = Floats{} + negative;
      const Floats nonNegatives = Floats{} + nonNegative;
      size_t i = 0;
      for (; i + 8 <= count; i += 8) {
        int32_t byte = bits[i / 8];
        for (size_t part = 0; part < 8; part += Vectors::kWidth, byte >>= Vectors::kWidth) {
          const Masks set = (Vectors::kWeights & byte) != 0;
          Floats values = set ? nonNegatives : negatives;
          if constexpr (accumulate) {
            Floats old;
            std::memcpy(&old, output + i + part, sizeof(old));
            values = old + values;
          }
          std::memcpy(output + i + part, &values, sizeof(values));
        }
      }
      for (; i < count; ++i) {
        const float value = ((bits[i / 8] >> (i % 8)) & 1) != 0 ? nonNegative : negative;
        output[i] = accumulate ? output[i] + value : value;
      }
    }
  };
};

}  // namespace hipress::onebit
