// SPDX-License-Identifier: Apache-2.0
//
// Kernels of the averages over a process group (device/slot_entries.h). One launch serves all slots, which
// mostly are small; a block that has nothing to do ends at once. The entries are in the device's memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/slot_entries.h"
#include "core/device/slot_messages.h"
#include "core/ops/cuda/execution.h"

namespace hipress::cuda {

/// Blocks for each entry that has values.
inline constexpr unsigned kEntryBlocks = 16;

/// Calls body(entry, t, threads) for each thread of the entry's blocks.
template <typename Entry, typename Body>
HIPRESS_DEVICE void forEntry(const Block& block, const Entry* entries, Body body) {
  const Entry& entry = entries[block.index / kEntryBlocks];
  const size_t first = (block.index % kEntryBlocks) * kThreads;
  block.threads([&](unsigned t) { body(entry, first + t, size_t{kEntryBlocks} * kThreads); });
}

/// *word := found if a bit of a value is set; otherwise it stays.
struct FindNonzero {
  const SlotSpan* entries;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    forEntry(block, entries, [](const SlotSpan& entry, size_t first, size_t threads) {
      // The first bit ends a thread, so a gradient costs one look.
      if (entry.elementBytes == 2) {
        look(static_cast<const uint16_t*>(entry.values), entry.count, first, threads, entry);
      } else {
        const size_t words = entry.count * (entry.elementBytes / sizeof(uint32_t));
        look(static_cast<const uint32_t*>(entry.values), words, first, threads, entry);
      }
    });
  }

 private:
  template <typename Bits>
  HIPRESS_DEVICE static void look(const Bits* values, size_t count, size_t first, size_t threads,
                                  const SlotSpan& entry) {
    for (size_t i = first; i < count; i += threads) {
      if (load(values + i) == 0) continue;
      *entry.word = entry.found;
      return;
    }
  }
};

/// *word := found if a value is not finite: all bits of its exponent are set.
struct FindNotFinite {
  const SlotSpan* entries;
  uint64_t exponent;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    forEntry(block, entries, [this](const SlotSpan& entry, size_t first, size_t threads) {
      if (entry.elementBytes == 2) {
        look(static_cast<const uint16_t*>(entry.values), entry, first, threads, exponent);
      } else if (entry.elementBytes == 4) {
        look(static_cast<const uint32_t*>(entry.values), entry, first, threads, exponent);
      } else {
        look(static_cast<const uint64_t*>(entry.values), entry, first, threads, exponent);
      }
    });
  }

 private:
  template <typename Bits>
  HIPRESS_DEVICE static void look(const Bits* values, const SlotSpan& entry, size_t first, size_t threads,
                                  uint64_t exponent) {
    bool found = false;
    for (size_t i = first; i < entry.count; i += threads)
      found = found || (static_cast<uint64_t>(values[i]) & exponent) == exponent;
    if (found) *entry.word = entry.found;
  }
};

/// See SlotFill. *verdict := 1 for values that are NaN now.
struct FillUnlessZero {
  const SlotFill* entries;
  uint32_t* verdict;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    forEntry(block, entries, [this](const SlotFill& entry, size_t first, size_t threads) {
      const uint32_t word = *entry.word;
      if (word == 0) return;
      const auto half = static_cast<uint16_t>(word == entry.zerosAt ? 0 : entry.otherwise);
      if (half != 0) *verdict = 1u;
      const size_t halves = entry.bytes / sizeof(uint16_t);
      for (size_t i = first; i < halves; i += threads) static_cast<uint16_t*>(entry.values)[i] = half;
    });
  }
};

/// See SlotSeal. *verdict := 1 for an average or a contribution that is not finite.
struct SealSlots {
  const SlotSeal* entries;
  unsigned number;
  uint32_t* verdict;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    block.threads([&](unsigned t) {
      for (unsigned each = t; each < number; each += kThreads) {
        if (sealMessage(entries[each])) *verdict = 1u;
      }
    });
  }
};

/// See SlotCheck. *verdict := 1 for a message with values that are not finite.
struct CheckSlots {
  const SlotCheck* entries;
  unsigned number;
  uint32_t* verdict;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    HIPRESS_SHARED uint32_t refused;
    block.once([&] { refused = 0; });
    block.sync();
    block.threads([&](unsigned t) {
      for (unsigned each = t; each < number; each += kThreads) {
        if (readMessage(entries[each])) *verdict = 1u;
        if (!isExpected(entries[each])) refused = 1;
      }
    });
    block.sync();
    // One thread writes, because a slot may have several messages.
    block.once([&] {
      for (unsigned t = 0; refused != 0 && t < number; ++t) {
        if (!isExpected(entries[t])) refuse(entries[t]);
      }
    });
  }
};

/// See SlotRestore. All states become those of before if *verdict is not 0.
struct RestoreSlots {
  const SlotRestore* entries;
  const uint32_t* verdict;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    const bool all = *verdict != 0;
    forEntry(block, entries, [=](const SlotRestore& entry, size_t first, size_t threads) {
      if (!all && *entry.absent == 0) return;
      for (size_t i = first; i < entry.count; i += threads) entry.state[i] = entry.before[i];
    });
  }
};

}  // namespace hipress::cuda
