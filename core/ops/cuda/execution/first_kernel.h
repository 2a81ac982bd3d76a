// SPDX-License-Identifier: Apache-2.0
//
// What the first kernel of a codec's function does in place of a kernel of one thread before it: each block
// of threads makes the function's frame in its own shared memory. The last block to end knows what all blocks
// have found, and gives its frame to the kernels that follow.
#pragma once

#include <cstring>

#include "core/ops/cuda/cuda_codec.h"
#include "core/ops/cuda/execution.h"

namespace hipress::cuda {

/// For the host: zeros, also between the members, so that equal frames have equal bytes.
template <typename Frame>
void clear(Frame* frame) {
  std::memset(static_cast<void*>(frame), 0, sizeof(Frame));
}

inline constexpr size_t kFrameWord = 8;

/// For all threads of a block, which sync before and afterwards: one thread would need many registers.
template <typename Frame>
HIPRESS_DEVICE void copyFrame(const Block& block, const Frame& from, Frame* to) {
  static_assert(sizeof(Frame) % kFrameWord == 0);
  block.sync();
  block.threads([&](unsigned t) {
    for (size_t at = t * kFrameWord; at < sizeof(Frame); at += kThreads * kFrameWord)
      std::memcpy(reinterpret_cast<unsigned char*>(to) + at,
                  reinterpret_cast<const unsigned char*>(&from) + at, kFrameWord);
  });
  block.sync();
}

/// For HIPRESS_SHARED: a frame, which has initial values and so no place in shared memory by itself.
template <typename Frame>
class OwnFrame {
 public:
  /// Makes a copy of `initial`.
  HIPRESS_DEVICE Frame* begin(const Block& block, const Frame& initial) {
    static_assert(alignof(Frame) <= alignof(OwnFrame));
    auto* const frame = reinterpret_cast<Frame*>(memory_);
    copyFrame(block, initial, frame);
    return frame;
  }

 private:
  alignas(16) unsigned char memory_[sizeof(Frame)];
};

/// Frames of several messages, each of which one thread makes.
template <typename Frame, unsigned number>
class OwnFrames {
 public:
  HIPRESS_DEVICE Frame* frames() { return reinterpret_cast<Frame*>(memory_); }
  HIPRESS_DEVICE Frame* begin(unsigned which, const Frame& initial) {
    Frame* const frame = frames() + which;
    *frame = initial;
    return frame;
  }

 private:
  alignas(16) unsigned char memory_[number * sizeof(Frame)];
};

/// Whether this block is the last one of its object to come here. Then its frame has the `bad` and the `stop`
/// of all.
template <typename Frame>
HIPRESS_DEVICE bool isLastWith(const Block& block, Frame* own, Counters* counters) {
  block.sync();
  block.once([&] {
    if (own->bad != 0) addTo(&counters->bad, own->bad);
    if (own->stop != 0) counters->stop = own->stop;
  });
  if (!block.last(&counters->ticket)) return false;
  block.once([&] {
    own->bad = take(&counters->bad);
    own->stop = take(&counters->stop);
  });
  block.sync();
  return true;
}

}  // namespace hipress::cuda
