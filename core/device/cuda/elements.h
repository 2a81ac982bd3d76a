// SPDX-License-Identifier: Apache-2.0
//
// What the engine does with the elements of tensors on a GPU, besides codecs. Pointers are the device's, and
// multiples of the elements' size; everything is put on a stream, nothing waits for it.
#pragma once

#include <cstddef>
#include <span>

#include "core/codec/codec.h"
#include "core/element/dtype.h"
#include "core/ops/cuda/execution.h"

namespace hipress::cuda {

/// Bytes of scratch memory for reduceInOrder(); 0 for up to 32 contributions.
size_t reduceScratchBytes(size_t contributions, size_t count);

/// As reduceInOrder() of element/reduce.h. The list itself is the host's; `scratch` is aligned to 256 bytes.
void reduceInOrder(DType dtype, std::span<const void* const> contributions, size_t count, double factor,
                   void* output, void* scratch, Stream stream);

/// sum := factor * values, or sum += factor * values, of floating-point values of any type.
void add(DType dtype, const void* values, float factor, DecodeMode mode, std::span<float> sum, Stream stream);

/// As narrow() of element/convert.h.
void narrow(std::span<const float> values, DType dtype, void* output, Stream stream);

/// Whether this library has code for the GPU of this thread.
bool hasKernels();

}  // namespace hipress::cuda
