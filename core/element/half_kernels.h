// SPDX-License-Identifier: Apache-2.0
//
// Converts runs of float16 to float32 and back in multiversioned kernels: with F16C where the level has it,
// and with the integer code of half.h elsewhere and for the last few elements. Both give the same bits.
#pragma once

#include <cstddef>

#include "core/element/half.h"
#include "core/element/multiversion.h"
#include "core/element/unaligned.h"

#if HIPRESS_X86
#include <immintrin.h>
#endif

namespace hipress {

#if HIPRESS_X86
// Eight at a time with AVX-512, too, because memory is the limit. Not always_inline: the compiler may inline
// them only after the kernel is inside its target function.
HIPRESS_TARGET_V3 inline void widenHalf8(const Unaligned<uint16_t>* source, float* output) {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i_u*>(source));
  _mm256_storeu_ps(output, _mm256_cvtph_ps(halves));
}
HIPRESS_TARGET_V3 inline void narrowHalf8(const float* input, Unaligned<uint16_t>* output) {
  const __m256 values = _mm256_loadu_ps(input);
  _mm_storeu_si128(reinterpret_cast<__m128i_u*>(output),
                   _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#endif

template <IsaLevel level>
void widenHalves(const Unaligned<uint16_t>* source, float* output, size_t count) {
  size_t i = 0;
#if HIPRESS_X86
  if constexpr (level >= IsaLevel::kV3) {
    for (; i + 8 <= count; i += 8) widenHalf8(source + i, output + i);
  }
#endif
  for (; i < count; ++i) output[i] = halfToFloat(source[i].value);
}

template <IsaLevel level>
void narrowHalves(const float* input, Unaligned<uint16_t>* output, size_t count) {
  size_t i = 0;
#if HIPRESS_X86
  if constexpr (level >= IsaLevel::kV3) {
    for (; i + 8 <= count; i += 8) narrowHalf8(input + i, output + i);
  }
#endif
  for (; i < count; ++i) output[i].value = floatToHalf(input[i]);
}

}  // namespace hipress
