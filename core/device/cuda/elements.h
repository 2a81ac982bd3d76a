// SPDX-License-Identifier: Apache-2.0
//
// The engine's work on elements of tensors on a GPU, without codecs. Pointers are the device's, and multiples
// of the element size. The functions put kernels on a stream and do not wait for them. The stream must have
// the kernels of mergeKernels(), conversionKernels() or copyingKernels().
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/codec/codec.h"
#include "core/element/dtype.h"
#include "core/element/reduce.h"
#include "core/ops/cuda/execution.h"

namespace hipress::cuda {

/// Kernels that are compiled together: there are many sets, and a process needs few. `title`: for errors.
struct ElementKernels {
  std::string title;
  std::string text;
};

/// The kernels of combineInOrder() for an element type. Integers with a factor but 1 have other kernels.
ElementKernels mergeKernels(Combination combination, DType dtype, double factor);
/// The kernels of add(), narrow() and flagNotFinite(). Throws Unsupported if `dtype` is no floating-point
/// type.
ElementKernels conversionKernels(DType dtype);

/// The kernels of copyBytes(), copyUnlessZero() and rescale().
ElementKernels copyingKernels();

/// The kernels of summed_kernels.h; their symbols are poison, count_not_finite, settle_levels, settle_sum.
ElementKernels summedKernels();

/// The kernels of slot_kernels.h: find_nonzero, find_not_finite, fill_unless_zero, seal_slots, check_slots,
/// restore_slots.
ElementKernels slotKernels();

/// Bytes of scratch memory for combineInOrder(); 0 for up to 32 contributions.
size_t combineScratchBytes(size_t contributions, size_t count);

/// Like combineInOrder() of element/reduce.h. The list is on the host; `scratch` is aligned to 256 bytes.
void combineInOrder(Combination combination, DType dtype, std::span<const void* const> contributions,
                    size_t count, double factor, void* output, void* scratch, Stream stream);

/// sum := factor * values, or sum += factor * values, for values of any floating-point type.
void add(DType dtype, const void* values, float factor, DecodeMode mode, std::span<float> sum, Stream stream);

/// Like narrow() of element/convert.h.
void narrow(std::span<const float> values, DType dtype, void* output, Stream stream);

/// *flag := 1 if a value of any floating-point type is NaN or infinite.
void flagNotFinite(DType dtype, const void* values, size_t count, uint32_t* flag, Stream stream);

/// values := values * (*now / *before), unless the two are equal.
void rescale(std::span<const std::span<float>> values, const float* now, const float* before, Stream stream);

/// to := from.
void copyBytes(std::byte* to, std::span<const std::byte> from, Stream stream);

/// to := values, if the word is not 0.
void copyUnlessZero(const uint32_t* word, std::span<const float> values, float* to, Stream stream);

}  // namespace hipress::cuda
