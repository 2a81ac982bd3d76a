// SPDX-License-Identifier: Apache-2.0
//
// The elements that a filter kept. Threads of a loop write them, each its own chunk, then one vector.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>

#include "core/ops/cpu/scratch.h"

namespace hipress::ops {

template <typename T>
class FilterOutputs {
 public:
  /// `each`: the elements of a chunk, at most. A loop reserves 16 more than it needs.
  void resize(size_t chunks, size_t each) {
    chunks_ = chunks;
    outputs_ = std::make_unique<Output[]>(chunks);
    for (size_t chunk = 0; chunk < chunks; ++chunk) outputs_[chunk].values.limit(each + 16);
  }

  Appender<T>& operator[](size_t chunk) { return outputs_[chunk].values; }

  /// All chunks' elements in order. They are in `scratch`, unless there was only one chunk. `size` becomes
  /// their number.
  T* gathered(Scratch& scratch, size_t& size) {
    size = 0;
    for (size_t chunk = 0; chunk < chunks_; ++chunk) size += outputs_[chunk].values.size();
    if (chunks_ == 1) return outputs_[0].values.data();
    T* const all = scratch.take<T>(size);
    T* next = all;
    for (size_t chunk = 0; chunk < chunks_; ++chunk) {
      const Appender<T>& values = outputs_[chunk].values;
      if (values.size() != 0) std::memcpy(next, values.data(), values.size() * sizeof(T));
      next += values.size();
    }
    return all;
  }

 private:
  struct Output {
    Scratch scratch;
    Appender<T> values{scratch};
  };

  size_t chunks_ = 0;
  std::unique_ptr<Output[]> outputs_;
};

}  // namespace hipress::ops
