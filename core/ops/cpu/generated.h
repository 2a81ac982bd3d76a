// SPDX-License-Identifier: Apache-2.0
//
// All headers that code of CompLL's C++ emitter uses.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "core/codec/generated_codec.h"
#include "core/codec/plugin.h"
#include "core/element/multiversion.h"
#include "core/ops/block.h"
#include "core/ops/cpu/blocks/block_select.h"
#include "core/ops/cpu/blocks/block_transform.h"
#include "core/ops/cpu/candidates.h"
#include "core/ops/cpu/chunks.h"
#include "core/ops/cpu/compact.h"
#include "core/ops/cpu/filter_outputs.h"
#include "core/ops/cpu/finite.h"
#include "core/ops/cpu/index_fault.h"
#include "core/ops/cpu/order.h"
#include "core/ops/cpu/pack.h"
#include "core/ops/cpu/packing/block_codes.h"
#include "core/ops/cpu/packing/look_up.h"
#include "core/ops/cpu/payload_reader.h"
#include "core/ops/cpu/philox.h"
#include "core/ops/cpu/prefetch.h"
#include "core/ops/cpu/prefixes.h"
#include "core/ops/cpu/reduce.h"
#include "core/ops/cpu/run_reducer.h"
#include "core/ops/cpu/scratch.h"
#include "core/ops/cpu/stream.h"
#include "core/ops/exponentials.h"
#include "core/ops/float16.h"
#include "core/ops/packed_element.h"
#include "core/ops/philox.h"
#include "core/ops/put_scalar.h"
#include "core/ops/scalar.h"
#include "core/ops/tile.h"

namespace hipress::ops {

/// From this number of elements on, new states are written past the caches, because no loop reads them before
/// the next step.
inline constexpr size_t kStreamFrom = size_t{1} << 14;

/// Unpacks a vector, with one element per int32. `isSigned`: its elements are two's complement.
template <bool isSigned>
int32_t* unpacked(const uint8_t* field, size_t count, unsigned width, Scratch& scratch) {
  int32_t* const codes = scratch.take<int32_t>(count);
  unpackTile<IsaLevel::kGeneric>(field, 0, count, width, codes);
  if constexpr (isSigned) {
    for (size_t i = 0; i < count; ++i) codes[i] = signExtended(codes[i], width);
  }
  return codes;
}
/// The same for elements of two bytes.
template <bool>
int32_t* unpacked(const uint16_t* field, size_t count, unsigned, Scratch& scratch) {
  int32_t* const codes = scratch.take<int32_t>(count);
  for (size_t i = 0; i < count; ++i) codes[i] = field[i];
  return codes;
}

/// A vector of float16, as floats.
inline float* widened(const uint16_t* field, size_t count, Scratch& scratch) {
  float* const values = scratch.take<float>(count);
  for (size_t i = 0; i < count; ++i) values[i] = float16Of(field[i]);
  return values;
}

}  // namespace hipress::ops
