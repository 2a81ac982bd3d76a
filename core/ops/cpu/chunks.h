// SPDX-License-Identifier: Apache-2.0
//
// A loop over elements that threads share. The cuts depend on the number of threads, and the result does
// not.
#pragma once

#include <algorithm>
#include <cstddef>

#include "core/codec/parallel.h"
#include "core/ops/block.h"

namespace hipress::ops {

class Chunks {
 public:
  /// Cuts are at multiples of `alignment`. Below kSerial elements the loop uses one thread, because a wake-up
  /// costs more.
  Chunks(Parallel* parallel, size_t elements, size_t alignment)
      : parallel_(parallel), elements_(elements), size_(std::max<size_t>(elements, 1)) {
    if (parallel != nullptr && parallel->threads() > 1 && elements >= kSerial)
      size_ = blockCount(kChunk, alignment) * alignment;
  }

  size_t count() const { return std::max<size_t>(blockCount(elements_, size_), 1); }

  /// The elements of a chunk, at most.
  size_t each() const { return std::min(elements_, size_); }

  /// Calls body(chunk, begin, end) for every chunk, and returns when all calls have ended.
  template <typename Body>
  void run(const Body& body) const {
    if (count() == 1) return body(size_t{0}, size_t{0}, elements_);
    parallel_->run(
        count(), [&](size_t chunk) { body(chunk, chunk * size_, std::min(elements_, (chunk + 1) * size_)); });
  }

 private:
  static constexpr size_t kSerial = size_t{1} << 18;
  static constexpr size_t kChunk = size_t{1} << 16;

  Parallel* parallel_;
  size_t elements_;
  size_t size_;
};

}  // namespace hipress::ops
