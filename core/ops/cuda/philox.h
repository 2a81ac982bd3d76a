// SPDX-License-Identifier: Apache-2.0
//
// The random numbers of a tile: a thread computes four successive numbers at once, or eight of 16 bits.
#pragma once

#include "core/ops/cuda/execution.h"
#include "core/ops/philox.h"

namespace hipress::cuda {

/// words[j] becomes the number of element tile + j, for j < count: of 32 bits, or the half that
/// philoxHalfWord() takes. The caller must sync afterwards.
template <typename Word>
HIPRESS_DEVICE inline void philoxTile(const Block& block, const ops::RandomKey& key, uint32_t site,
                                      size_t tile, unsigned count, Word* words) {
  static_assert(sizeof(Word) == 4 || sizeof(Word) == 2);
  constexpr unsigned shared = sizeof(ops::PhiloxWords) / sizeof(Word);
  const uint64_t place = key.firstElement + tile;
  const auto skipped = static_cast<unsigned>(place % shared);
  const unsigned groups = (skipped + count + shared - 1) / shared;
  block.threads([&](unsigned t) {
    for (unsigned group = t; group < groups; group += kThreads) {
      const ops::PhiloxWords four = ops::philoxGroup(key, site, place / shared + group);
      for (unsigned index = 0; index < shared; ++index) {
        const unsigned j =
            shared * group + index - skipped;  // for words before the tile: greater than any count
        if (j >= count) continue;
        if constexpr (sizeof(Word) == 4) {
          words[j] = four.word[index];
        } else {
          words[j] = ops::philoxHalf(four, index);
        }
      }
    }
  });
}

}  // namespace hipress::cuda
