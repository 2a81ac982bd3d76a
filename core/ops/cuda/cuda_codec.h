// SPDX-License-Identifier: Apache-2.0
//
// A generated codec on a GPU: the text of its kernels, which NVRTC compiles, and a table of the host's
// functions, which start them. Everything is put on a stream; nothing waits for it, and nothing is allocated.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/ops/cuda/launcher.h"

namespace hipress::cuda {

/// Sizes of messages are kept in 32 bits.
inline constexpr size_t kMostMessageBytes = 0xffffffff;

/// What an encode reads and writes. All pointers but the arrays `before` and `after` themselves are the
/// device's. Vectors have `count` floats and do not overlap.
struct CudaEncode {
  const double* params;  ///< On the host: the options' values, in the program's order.
  const float* gradient;
  size_t count;
  const float* const* before;  ///< One for each state; nullptr: the caller keeps none.
  float* const* after;         ///< If the message gets empty, their content does not count.
  uint64_t seed;
  uint64_t step;
  uint64_t firstElement;
  uint32_t tensor;
  float scale;
  uint8_t* message;        ///< maxEncodedBytes() of room, aligned to 4 bytes.
  uint32_t* messageBytes;  ///< 0 if the gradient or a new state is not finite: keep `before` then.
  uint32_t* error;         ///< 0, or a number for refusal(): the program does what it must not.
  void* scratch;           ///< encodeScratchBytes(), aligned to 256 bytes.
};

struct CudaDecode {
  const double* params;
  const uint8_t* payload;  ///< Aligned to 4 bytes.
  /// How many bytes the payload has. nullptr: `capacity`.
  const uint32_t* payloadBytes;
  size_t capacity;  ///< Bytes that the payload may have.
  float* output;
  size_t count;
  uint32_t accumulate;  ///< 1: output += decoded.
  uint32_t* error;      ///< 0, or a number for refusal(): the payload is no message, and output is as it was.
  void* scratch;        ///< decodeScratchBytes(), aligned to 256 bytes.
};

struct CudaCodec {
  const char* name;
  const char* kernels;  ///< The text for NVRTC. It includes headers of HiPress.
  size_t states;
  size_t params;
  /// The largest size_t if a message could exceed kMostMessageBytes: then there is no encode() of so many.
  size_t (*maxEncodedBytes)(const double* params, size_t count);
  size_t (*encodeScratchBytes)(const double* params, size_t count);
  size_t (*decodeScratchBytes)(const double* params, size_t count, size_t capacity);
  void (*encode)(const CudaEncode& call, Stream stream);
  void (*decode)(const CudaDecode& call, Stream stream);
  const char* (*refusal)(uint32_t error);
};

}  // namespace hipress::cuda
