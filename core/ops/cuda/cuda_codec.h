// SPDX-License-Identifier: Apache-2.0
//
// A generated codec on a GPU: the text of its kernels, which NVRTC compiles, and a table of host functions
// that start them. All work goes to a stream. No function waits for the work or allocates memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/ops/cuda/contributions.h"
#include "core/ops/cuda/launcher.h"

namespace hipress::cuda {

/// Sizes of messages have 32 bits.
inline constexpr size_t kMostMessageBytes = 0xffffffff;

/// What the blocks of threads of a function's first kernel find out together. All zeros before a call, and
/// when its work is done.
struct Counters {
  unsigned long long bad;  ///< Values that are not finite.
  uint32_t ticket;
  uint32_t stop;  ///< A number for refusal().
};

/// Input and output of an encode. All pointers are the device's, except the arrays `before` and `after`
/// themselves. Vectors have `count` floats and must not overlap.
struct CudaEncode {
  const double* params;  ///< On the host: the values of the options, in the program's order.
  const float* gradient;
  size_t count;
  const float* const* before;  ///< One pointer for each state; nullptr: the caller keeps none.
  float* const* after;         ///< Undefined if the message becomes empty.
  uint64_t seed;
  uint64_t step;
  uint64_t firstElement;
  uint32_t tensor;
  float scale;
  uint8_t* message;        ///< Room for maxEncodedBytes(), aligned to 4 bytes.
  uint32_t* messageBytes;  ///< 0 if the gradient or a new state is not finite: the caller keeps `before`.
  uint32_t* error;         ///< 0, or a number for refusal(): the program broke a rule.
  void* scratch;           ///< Room for encodeScratchBytes(), aligned to 256 bytes.
  Counters* counters;
  const uint8_t* agreed;  ///< Of encodeAgreed(): the statistics, aligned to 4 bytes.
  size_t agreedBytes;
};

struct CudaDecode {
  const double* params;
  const uint8_t* payload;  ///< Aligned to 4 bytes.
  /// The size of the payload in bytes. nullptr: it is `capacity`.
  const uint32_t* payloadBytes;
  size_t capacity;  ///< The most bytes of the payload.
  float* output;
  size_t count;
  uint32_t accumulate;  ///< 1: output += decoded.
  uint32_t* error;      ///< 0, or a number for refusal(): the payload is invalid, output unchanged.
  void* scratch;        ///< Room for decodeScratchBytes(), aligned to 256 bytes.
  Counters* counters;
};

/// output := factor * (c0 + c1 + ...), in this order.
struct CudaSum {
  const double* params;
  const Contribution* contributions;  ///< On the host.
  size_t number;                      ///< At least 1.
  size_t capacity;                    ///< The most bytes of a payload.
  float factor;
  float* output;
  size_t count;
  void* scratch;  ///< Room for sumScratchBytes(), aligned to 256 bytes.
};

struct CudaCodec {
  const char* name;
  const char* kernels;  ///< The text for NVRTC. It includes headers of HiPress.
  size_t states;
  size_t params;
  /// The largest size_t if a message could exceed kMostMessageBytes: encode() must not get so many elements.
  size_t (*maxEncodedBytes)(const double* params, size_t count);
  size_t (*encodeScratchBytes)(const double* params, size_t count);
  size_t (*decodeScratchBytes)(const double* params, size_t count, size_t capacity);
  void (*encode)(const CudaEncode& call, Stream stream);
  void (*decode)(const CudaDecode& call, Stream stream);
  const char* (*refusal)(uint32_t error);
  /// nullptr, both, if decoding takes more than one pass over the elements: the caller decodes one message
  /// after the other.
  size_t (*sumScratchBytes)(size_t number, size_t count);
  void (*sum)(const CudaSum& call, Stream stream);
  /// As of SummedEncoding, for one element at least; nullptr, all, if ranks cannot add what encode() makes.
  /// The message of statistics() is the statistics; `after` is not written.
  size_t (*statisticsScratchBytes)(const double* params, size_t count);
  void (*statistics)(const CudaEncode& call, Stream stream);
  size_t (*agreedScratchBytes)(const double* params, size_t count, size_t agreedBytes);
  void (*encodeAgreed)(const CudaEncode& call, Stream stream);
};

}  // namespace hipress::cuda
