// SPDX-License-Identifier: Apache-2.0
//
// The work of the engine on the elements of tensors on a GPU, besides codecs. Pointers are the device's, and
// multiples of the elements' size. The functions put kernels on a stream and do not wait for them;
// the stream has the kernels that mergeKernels() or conversionKernels() name.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/codec/codec.h"
#include "core/element/dtype.h"
#include "core/element/reduce.h"
#include "core/ops/cuda/execution.h"

namespace hipress::cuda {

/// Kernels that are compiled together: there are many, and a process needs few. `title` is for errors.
struct ElementKernels {
  std::string title;
  std::string text;
};

/// The kernels of combineInOrder() for this element type; other kernels if the factor of integers is not 1.
ElementKernels mergeKernels(Combination combination, DType dtype, double factor);
/// The kernels of add() and narrow(). Throws Unsupported if it is no floating-point type.
ElementKernels conversionKernels(DType dtype);

/// Bytes of scratch memory for combineInOrder(); 0 for up to 32 contributions.
size_t combineScratchBytes(size_t contributions, size_t count);

/// As combineInOrder() of element/reduce.h. The list itself is the host's; `scratch` is aligned to 256 bytes.
void combineInOrder(Combination combination, DType dtype, std::span<const void* const> contributions,
                    size_t count, double factor, void* output, void* scratch, Stream stream);

/// sum := factor * values, or sum += factor * values, of floating-point values of any type.
void add(DType dtype, const void* values, float factor, DecodeMode mode, std::span<float> sum, Stream stream);

/// As narrow() of element/convert.h.
void narrow(std::span<const float> values, DType dtype, void* output, Stream stream);

}  // namespace hipress::cuda
