// SPDX-License-Identifier: Apache-2.0
//
// Prefix sums and maxima. Threads of a loop combine the elements of their chunks; then each chunk gets the
// combination of all elements before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/codec/parallel.h"
#include "core/element/multiversion.h"
#include "core/ops/prefix.h"

namespace hipress::ops {

namespace detail {

/// values[i] = Combine(before, values[i]).
template <typename Combine>
struct CombineAll {
  template <IsaLevel>
  struct Kernel {
    static void run(int32_t before, int32_t* values, size_t count) {
      for (size_t i = 0; i < count; ++i) values[i] = Combine{}(before, values[i]);
    }
  };
};

}  // namespace detail

template <typename Combine>
class Prefixes {
 public:
  /// The elements of one chunk, which one thread gives from front to back.
  class Chunk {
   public:
    void combine(const int32_t* values, size_t count, int32_t* out) {
      int32_t last = last_;
      for (size_t i = 0; i < count; ++i) out[i] = last = Combine{}(last, values[i]);
      last_ = last;
    }

   private:
    friend Prefixes;
    size_t begin_ = 0;
    size_t end_ = 0;
    int32_t last_ = Combine::kFirst;
  };

  void resize(size_t chunks) { chunks_.assign(chunks, Chunk()); }

  /// Chunk number `chunk`, which has the elements from `begin` to `end`.
  Chunk& chunk(size_t chunk, size_t begin, size_t end) {
    chunks_[chunk].begin_ = begin;
    chunks_[chunk].end_ = end;
    return chunks_[chunk];
  }

  /// Completes `values`, in which each chunk has combined its own elements only.
  void join(Parallel* parallel, int32_t* values) {
    if (chunks_.size() == 1) return;
    int32_t before = Combine::kFirst;
    for (Chunk& chunk : chunks_) {
      const int32_t own = chunk.last_;
      chunk.last_ = before;
      before = Combine{}(before, own);
    }
    parallel->run(chunks_.size() - 1, [this, values](size_t number) {
      const Chunk& chunk = chunks_[number + 1];
      multiversion<detail::CombineAll<Combine>::template Kernel>(chunk.last_, values + chunk.begin_,
                                                                 chunk.end_ - chunk.begin_);
    });
  }

 private:
  std::vector<Chunk> chunks_;
};

}  // namespace hipress::ops
