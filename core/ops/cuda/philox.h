// SPDX-License-Identifier: Apache-2.0
//
// The random numbers of a tile: a thread computes four successive ones at once.
#pragma once

#include "core/ops/cuda/execution.h"
#include "core/ops/philox.h"

namespace hipress::cuda {

/// words[j] becomes the number of element tile + j, for j < count. The caller syncs afterwards.
HIPRESS_DEVICE inline void philoxTile(const Block& block, const ops::RandomKey& key, uint32_t site,
                                      size_t tile, unsigned count, uint32_t* words) {
  const uint64_t place = key.firstElement + tile;
  const auto skipped = static_cast<unsigned>(place % 4);
  const unsigned groups = (skipped + count + 3) / 4;
  block.threads([&](unsigned t) {
    for (unsigned group = t; group < groups; group += kThreads) {
      const ops::PhiloxWords four = ops::philoxGroup(key, site, place / 4 + group);
      for (unsigned word = 0; word < 4; ++word) {
        const unsigned j = 4 * group + word - skipped;  // of words before the tile, greater than any count
        if (j < count) words[j] = four.word[word];
      }
    }
  });
}

}  // namespace hipress::cuda
