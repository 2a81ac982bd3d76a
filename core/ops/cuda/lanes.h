// SPDX-License-Identifier: Apache-2.0
//
// Reductions in the language's order (docs/extending/codec.md): blocks of kReduceBlock elements. In a block,
// element i belongs to lane i mod kLanes. Each lane combines its elements in order, from its first one. Then
// the lanes are combined in order, without lanes that have no element. Results of several blocks are reduced
// in the same way. One thread computes a lane: of elements that all threads have staged in shared memory, or,
// if nothing else needs their neighbours, of elements that it loads itself.
//
// A Combine is a type with T operator()(T, T).
#pragma once

#include "core/ops/block.h"
#include "core/ops/cuda/execution.h"

namespace hipress::cuda {

/// Continues the reduction of a block with its next tile; `begins`: with its first tile. Reductions of
/// different `group` (below kThreads / 32) run at the same time. `lanes` has kLanes values, in shared
/// memory.
template <unsigned group, typename T, typename Element, typename Combine>
HIPRESS_DEVICE void feedLanes(const Block& block, const Element* staged, unsigned count, bool begins,
                              T* lanes, Combine combine) {
  block.threads([&](unsigned t) {
    const unsigned lane = t - 32 * group;  // of threads before the group: greater than any lane
    if (lane >= ops::kLanes || lane >= count) return;
    unsigned j = lane;
    T value = lanes[lane];
    if (begins) {
      value = static_cast<T>(staged[j]);
      j += ops::kLanes;
    }
    for (; j < count; j += ops::kLanes) value = combine(value, static_cast<T>(staged[j]));
    lanes[lane] = value;
  });
}

/// The combination of the lanes of a block of `count` elements, at least one.
template <typename T, typename Combine>
HIPRESS_DEVICE T finishLanes(const T* lanes, size_t count, Combine combine) {
  const size_t used = count < ops::kLanes ? count : ops::kLanes;
  T result = lanes[0];
  for (size_t lane = 1; lane < used; ++lane) result = combine(result, lanes[lane]);
  return result;
}

inline constexpr unsigned kUnits =
    kThreads / ops::kLanes;  ///< Units that a thread block takes at once, at most.
/// Shared memory for the lanes of kUnits units: the lanes of successive units lie in different banks.
inline constexpr unsigned kUnitLanes = kUnits * (ops::kLanes + 1);

/// How many of `units` a thread block takes at once: all of its threads have work, but only if there is work
/// for about as many thread blocks as a GPU runs at once.
HIPRESS_DEVICE inline uint32_t unitsTogether(uint32_t units) {
  constexpr uint32_t kThreadBlocks = 512;
  return units / kThreadBlocks >= kUnits ? kUnits : (units < kThreadBlocks ? 1u : units / kThreadBlocks);
}

HIPRESS_DEVICE inline unsigned placeOfLane(unsigned thread) {
  return thread + thread / ops::kLanes;
}

/// Blocks that a thread block takes at once if one kernel does all for a block, at most.
inline constexpr unsigned kOnePassUnits = 64;
inline constexpr unsigned kOnePassLanes = kOnePassUnits * (ops::kLanes + 1);

/// Whether one kernel does all for blocks of this size: a tile begins at a multiple of eight elements, so
/// that no byte of packed elements is of two tiles.
inline bool takesOnePass(size_t size) {
  return size <= kTile && size % 8 == 0;
}

/// Elements that a thread block takes at once in a vector of `count`: the cache has them a second time, and a
/// short vector has work for many thread blocks.
HIPRESS_HOST_DEVICE inline size_t onePassElements(size_t count) {
  return count < size_t{1} << 21 ? kTile : 4 * kTile;
}

HIPRESS_DEVICE inline uint32_t onePassUnits(size_t count, size_t size) {
  return static_cast<uint32_t>(atMost(onePassElements(count) / size, kOnePassUnits));
}

/// Calls body(place, load(place)) for the elements of one lane, in order. The lane loads `together` elements
/// before it computes the first.
template <unsigned together, typename Load, typename Body>
HIPRESS_DEVICE void eachOfLane(size_t first, size_t last, unsigned lane, Load load, Body body) {
  size_t place = first + lane;
  for (; place + (together - 1) * ops::kLanes < last; place += together * ops::kLanes) {
    decltype(load(place)) loaded[together];
    HIPRESS_UNROLL
    for (unsigned k = 0; k < together; ++k) loaded[k] = load(place + k * ops::kLanes);
    HIPRESS_UNROLL
    for (unsigned k = 0; k < together; ++k) body(place + k * ops::kLanes, loaded[k]);
  }
  for (; place < last; place += ops::kLanes) body(place, load(place));
}

/// Shared memory for a tile and its lanes, for one reduction after the other.
HIPRESS_DEVICE inline void* stagingMemory() {
  HIPRESS_SHARED double memory[kTile + ops::kLanes];
  return memory;
}

/// For one thread block: partials[0] becomes the reduction of all `count` partials. Overwrites the others.
template <typename T, typename Combine>
HIPRESS_DEVICE void reducePartials(const Block& block, T* partials, size_t count, Combine combine) {
  T* const staged = static_cast<T*>(stagingMemory());
  T* const lanes = staged + kTile;
  while (count > 1) {
    size_t done = 0;
    for (size_t first = 0; first < count; first += ops::kReduceBlock, ++done) {
      const size_t last = atMost(first + ops::kReduceBlock, count);
      for (size_t tile = first; tile < last; tile += kTile) {
        const unsigned here = tileCount(tile, last);
        block.elements(here, [&](unsigned j) { staged[j] = partials[tile + j]; });
        block.sync();
        feedLanes<0>(block, staged, here, tile == first, lanes, combine);
        block.sync();
      }
      block.once([&] { partials[done] = finishLanes(lanes, last - first, combine); });
      block.sync();
    }
    count = done;
  }
}

/// How thread blocks share the blocks of reduce_blocks: several short ones per tile, or part of one long one.
class BlockParts {
 public:
  /// For a vector of `length` < 2^31, and blocks of `size`, which is positive. `alone`: a unit has one short
  /// block, not all of a tile.
  HIPRESS_DEVICE BlockParts(size_t length, size_t size, bool alone = false)
      : length_(static_cast<uint32_t>(length)),
        size_(static_cast<uint32_t>(size)),
        rows_(length_ / size_ + (length_ % size_ != 0 ? 1u : 0u)),
        each_(size <= kTile ? (alone ? 1u : kTile / size_) : partials(size_ < length_ ? size_ : length_)),
        units_(size <= kTile ? (rows_ + each_ - 1) / each_ : rows_ * each_) {}

  HIPRESS_DEVICE bool isShort() const { return size_ <= kTile; }
  /// Blocks; the last one may be shorter.
  HIPRESS_DEVICE uint32_t rows() const { return rows_; }
  /// Short blocks: the number of blocks in a tile. Long blocks: the most partial results of a block.
  HIPRESS_DEVICE uint32_t each() const { return each_; }
  /// The units for which thread blocks take turns.
  HIPRESS_DEVICE uint32_t units() const { return units_; }

  HIPRESS_DEVICE size_t first(uint32_t unit) const {
    if (isShort()) return size_t{unit} * each_ * size_;
    return size_t{unit / each_} * size_ + size_t{unit % each_} * ops::kReduceBlock;
  }
  /// At most first(unit) if the unit has no elements.
  HIPRESS_DEVICE size_t last(uint32_t unit) const {
    if (isShort()) return atMost(first(unit) + each_ * size_, length_);
    return atMost(atMost(first(unit) + ops::kReduceBlock, size_t{unit / each_ + 1} * size_), length_);
  }
  /// The number of partial results of a long block.
  HIPRESS_DEVICE uint32_t partialsOf(uint32_t row) const {
    const size_t left = length_ - size_t{row} * size_;
    return partials(left < size_ ? static_cast<uint32_t>(left) : size_);
  }

 private:
  HIPRESS_DEVICE static uint32_t partials(uint32_t elements) {
    constexpr auto block = static_cast<uint32_t>(ops::kReduceBlock);
    return elements / block + (elements % block != 0 ? 1u : 0u);
  }

  uint32_t length_;
  uint32_t size_;
  uint32_t rows_;
  uint32_t each_;
  uint32_t units_;
};

/// Room for the partial results of any blocks of a vector of `length`.
inline size_t mostPartials(size_t length) {
  return length / 512 + 4;
}

/// Reduces the short blocks of a staged tile of `count` elements: results[q] = init combined with block q.
template <typename T, typename Element, typename Result, typename Combine>
HIPRESS_DEVICE void reduceShortBlocks(const Block& block, const Element* staged, unsigned count,
                                      unsigned size, T init, Result* results, Combine combine) {
  constexpr unsigned kLanes = ops::kLanes;
  HIPRESS_SHARED T lanes[kThreads];
  const unsigned blocks = (count + size - 1) / size;
  for (unsigned begin = 0; begin < blocks; begin += kThreads / kLanes) {
    block.threads([&](unsigned t) {
      const unsigned first = (begin + t / kLanes) * size;
      const unsigned last = first + size < count ? first + size : count;
      unsigned j = first + t % kLanes;
      if (j >= last) return;
      T value = static_cast<T>(staged[j]);
      for (j += kLanes; j < last; j += kLanes) value = combine(value, static_cast<T>(staged[j]));
      lanes[t] = value;
    });
    block.sync();
    block.threads([&](unsigned t) {
      const unsigned number = begin + t;
      if (t >= kThreads / kLanes || number >= blocks) return;
      const unsigned length = count - number * size < size ? count - number * size : size;
      results[number] = combine(init, finishLanes(lanes + t * kLanes, length, combine));
    });
    block.sync();
  }
}

/// For all blocks of a grid: computes the results of long blocks from the partial results.
template <typename T, typename Result, typename Combine>
HIPRESS_DEVICE void finishLongBlocks(const Block& block, const BlockParts& parts, T* partials, T init,
                                     Result* results, Combine combine) {
  if (parts.isShort()) return;
  for (auto row = static_cast<uint32_t>(block.index); row < parts.rows(); row += block.count) {
    T* const own = partials + size_t{row} * parts.each();
    reducePartials(block, own, parts.partialsOf(row), combine);
    block.once([&] { results[row] = combine(init, own[0]); });
  }
}

}  // namespace hipress::cuda
