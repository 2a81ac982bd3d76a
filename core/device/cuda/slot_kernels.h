// SPDX-License-Identifier: Apache-2.0
//
// Kernels of the averages over a process group (device/slot_entries.h). One launch serves many slots, which
// mostly are small; a block that has nothing to do ends at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/slot_entries.h"
#include "core/ops/cuda/execution.h"

namespace hipress::cuda {

/// Entries of one launch: CUDA passes 4 KiB of arguments.
inline constexpr unsigned kMostEntries = 40;
/// Blocks for each entry that has values.
inline constexpr unsigned kEntryBlocks = 16;

// Fields of a header (docs/wire-format.md), as words.
inline constexpr uint32_t kHeaderStart = 0x015048;  ///< Magic and version.
inline constexpr uint8_t kRawBit = 1;
inline constexpr uint8_t kAbsentBit = 2;
inline constexpr uint8_t kZerosBit = 64;
inline constexpr uint8_t kNotFiniteBit = 128;

/// Calls body(entry, t, threads) for each thread of the entry's blocks.
template <typename Entry, typename Body>
HIPRESS_DEVICE void forEntry(const Block& block, const Entry* entries, Body body) {
  const Entry& entry = entries[block.index / kEntryBlocks];
  const size_t first = (block.index % kEntryBlocks) * kThreads;
  block.threads([&](unsigned t) { body(entry, first + t, size_t{kEntryBlocks} * kThreads); });
}

/// *word := found if a bit of a value is set; otherwise it stays.
struct FindNonzero {
  SlotSpan entries[kMostEntries];

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
  SlotSpan entries[kMostEntries];
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

/// values := 0 if *word is not 0.
struct ClearUnlessZero {
  SlotSpan entries[kMostEntries];

  HIPRESS_DEVICE void operator()(const Block& block) const {
    forEntry(block, entries, [](const SlotSpan& entry, size_t first, size_t threads) {
      if (*entry.word == 0) return;
      const size_t halves = entry.count * (entry.elementBytes / sizeof(uint16_t));
      for (size_t i = first; i < halves; i += threads) static_cast<uint16_t*>(entry.values)[i] = 0;
    });
  }
};

/// See SlotSeal. *verdict := 1 for an average or a contribution that is not finite.
struct SealSlots {
  SlotSeal entries[kMostEntries];
  unsigned number;
  uint32_t* verdict;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    block.threads([&](unsigned t) {
      if (t < number) seal(entries[t]);
    });
  }

 private:
  HIPRESS_DEVICE void seal(const SlotSeal& entry) const {
    const bool zeros = entry.nonzero != nullptr && *entry.nonzero == 0;
    uint32_t absent = 0;
    if (entry.absent != nullptr) {
      absent = refused(entry) != 0 ? uint32_t{kSlotRefused} : zeros ? uint32_t{kSlotAbsent} : 0u;
      *entry.absent = absent;
    }
    if (entry.header == nullptr) return;
    uint32_t flags = absent != 0 ? kAbsentBit : entry.raw;
    uint32_t bytes = 0;
    if (absent == 0) {
      bytes = entry.bytes != nullptr ? *entry.bytes : entry.payloadBytes;
      const bool infinite = entry.notFinite != nullptr && *entry.notFinite != 0;
      if (infinite || (bytes == 0 && entry.elements != 0)) *verdict = 1u;
      if (infinite) flags |= kNotFiniteBit;
      if (entry.absent == nullptr && zeros) flags |= kZerosBit;
    }
    auto* const words = reinterpret_cast<uint32_t*>(entry.header);
    words[0] = kHeaderStart | flags << 24;
    words[1] = entry.codec;
    words[2] = static_cast<uint32_t>(entry.elements);
    words[3] = static_cast<uint32_t>(entry.elements >> 32);
    words[4] = bytes;
    words[5] = 0;
    words[6] = 0;
    // With 1 + the rank whose contribution the owner has refused, so that all ranks can say it.
    words[7] = entry.dtype | refused(entry) << 16;
  }

  /// 1 + the rank whose contribution is refused, or 0.
  HIPRESS_DEVICE static uint32_t refused(const SlotSeal& entry) {
    if (entry.refused != nullptr && *entry.refused != 0) return *entry.refused;
    for (uint32_t rank = 0; entry.errors != nullptr && rank < entry.ranks; ++rank) {
      if (entry.errors[rank] != 0) return 1 + rank;
    }
    return 0;
  }
};

/// See SlotCheck. *verdict := 1 for a message with values that are not finite.
struct CheckSlots {
  SlotCheck entries[kMostEntries];
  unsigned number;
  uint32_t* verdict;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    HIPRESS_SHARED uint32_t refused;
    block.once([&] { refused = 0; });
    block.sync();
    block.threads([&](unsigned t) {
      if (t < number && !check(entries[t])) refused = 1;
    });
    block.sync();
    // One thread writes, because a slot may have several messages.
    block.once([&] {
      for (unsigned t = 0; refused != 0 && t < number; ++t) {
        if (!isExpected(entries[t])) refuse(entries[t]);
      }
    });
  }

 private:
  HIPRESS_DEVICE bool check(const SlotCheck& entry) const {
    const uint32_t* const words = wordsOf(entry);
    const uint8_t flags = flagsOf(entry);
    const bool absent = (flags & kAbsentBit) != 0;
    const bool good = isExpected(entry);
    if (entry.nonzero != nullptr && (flags & kZerosBit) == 0) *entry.nonzero = 1u;
    if (entry.absent != nullptr)
      *entry.absent = !good ? uint32_t{kSlotRefused} : absent ? uint32_t{kSlotAbsent} : 0u;
    if (good && !absent && ((words[4] == 0 && entry.elements != 0) || (flags & kNotFiniteBit) != 0))
      *verdict = 1u;
    return good;
  }

  HIPRESS_DEVICE static const uint32_t* wordsOf(const SlotCheck& entry) {
    return reinterpret_cast<const uint32_t*>(entry.header);
  }
  HIPRESS_DEVICE static uint8_t flagsOf(const SlotCheck& entry) {
    return static_cast<uint8_t>(wordsOf(entry)[0] >> 24);
  }

  HIPRESS_DEVICE static bool isExpected(const SlotCheck& entry) {
    const uint32_t* const words = wordsOf(entry);
    const uint8_t flags = flagsOf(entry);
    constexpr uint8_t kKnown = kRawBit | kAbsentBit | kZerosBit | kNotFiniteBit;
    const uint64_t elements = words[2] | static_cast<uint64_t>(words[3]) << 32;
    if ((words[0] & 0xffffffu) != kHeaderStart || (flags & ~kKnown) != 0) return false;
    if (words[1] != entry.codec || elements != entry.elements) return false;
    // Checksum, reserved byte and, of an average, the refused contribution.
    if (words[5] != 0 || words[6] != 0 || words[7] != entry.dtype) return false;
    // Only an average is absent.
    if ((flags & kAbsentBit) != 0) return entry.absent != nullptr && (flags & kRawBit) == 0 && words[4] == 0;
    if ((flags & kRawBit) != entry.raw) return false;
    return entry.raw != 0 ? words[4] == entry.mostBytes : words[4] <= entry.mostBytes;
  }

  HIPRESS_DEVICE static void refuse(const SlotCheck& entry) {
    if (entry.refused[0] != 0) return;
    for (unsigned i = 0; i < 8; ++i) entry.refused[1 + i] = wordsOf(entry)[i];
    entry.refused[0] = 1 + entry.sender;
  }
};

/// See SlotRestore. All states become those of before if *verdict is not 0.
struct RestoreSlots {
  SlotRestore entries[kMostEntries];
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
