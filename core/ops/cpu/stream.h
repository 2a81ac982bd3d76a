// SPDX-License-Identifier: Apache-2.0
//
// Writes results past the caches. Memory that no loop reads soon should not be fetched before the write, and
// should not displace memory that is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/element/multiversion.h"

#if HIPRESS_X86
#include <immintrin.h>
#endif

namespace hipress::ops {

namespace detail {

/// Streams floats to an aligned place, as many as fill registers; returns their number. Plain version: none.
template <IsaLevel level>
struct StreamFloats {
#if HIPRESS_X86
  static constexpr size_t kBytes = 16;
  static size_t run(float* destination, const float* tile, size_t count) {
    size_t i = 0;
    for (; i + 4 <= count; i += 4) _mm_stream_ps(destination + i, _mm_loadu_ps(tile + i));
    return i;
  }
#else
  static constexpr size_t kBytes = 4;
  static size_t run(float*, const float*, size_t) { return 0; }
#endif
};

#if HIPRESS_X86
template <>
struct StreamFloats<IsaLevel::kV3> {
  static constexpr size_t kBytes = 32;
  HIPRESS_TARGET_V3 static size_t run(float* destination, const float* tile, size_t count) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8) _mm256_stream_ps(destination + i, _mm256_loadu_ps(tile + i));
    return i;
  }
};
template <>
struct StreamFloats<IsaLevel::kV4> {
  static constexpr size_t kBytes = 64;
  HIPRESS_TARGET_V4 static size_t run(float* destination, const float* tile, size_t count) {
    size_t i = 0;
#pragma GCC unroll 4
    for (; i + 16 <= count; i += 16) _mm512_stream_ps(destination + i, _mm512_loadu_ps(tile + i));
    return i;
  }
};
#endif

}  // namespace detail

/// Copies `count` floats to a place of any alignment; with `stream`, past the caches. The two must not
/// overlap. Streamed stores need a streamFence() before another thread reads them.
template <IsaLevel level>
void storeTile(float* destination, const float* tile, size_t count, bool stream) {
  constexpr size_t bytes = detail::StreamFloats<level>::kBytes;
  size_t done = 0;
  const size_t before = (bytes - reinterpret_cast<uintptr_t>(destination) % bytes) % bytes;
  if (stream && before % sizeof(float) == 0 && before / sizeof(float) <= count) {
    done = before / sizeof(float);
    std::memcpy(destination, tile, before);
    done += detail::StreamFloats<level>::run(destination + done, tile + done, count - done);
  }
  std::memcpy(destination + done, tile + done, (count - done) * sizeof(float));
}

/// Makes this thread's streamed stores visible before its later stores.
inline void streamFence() {
#if HIPRESS_X86
  _mm_sfence();
#endif
}

}  // namespace hipress::ops
