// SPDX-License-Identifier: Apache-2.0
//
// Cuts the caller's memory into vectors. Without memory it computes the needed size.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hipress::cuda {

class Arena {
 public:
  /// `memory` is aligned to kAlignment bytes, or nullptr: then the results of take() must not be used.
  explicit Arena(void* memory) : memory_(reinterpret_cast<uintptr_t>(memory)) {}

  template <typename T>
  T* take(size_t count) {
    const uintptr_t at = memory_ + bytes_;
    bytes_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<T*>(at);
  }

  size_t bytes() const { return bytes_; }

  static constexpr size_t kAlignment = 256;

 private:
  uintptr_t memory_;
  size_t bytes_ = 0;
};

}  // namespace hipress::cuda
