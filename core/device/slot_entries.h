// SPDX-License-Identifier: Apache-2.0
//
// What a device does with many slots of a process group's average at once (slots/): the lists of such work.
// All pointers are the device's. Kernels read these types, too. No type has room between its members, so that
// a device recognises a list that it already has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hipress {

/// Some values of a tensor, and a word that depends on them.
struct SlotSpan {
  void* values;
  size_t count;
  uint32_t* word;
  uint32_t elementBytes;  ///< 2, 4 or 8.
  uint32_t found = 1;     ///< What a kernel writes to the word.
};

/// An average's values, and a word that says whether they are there.
struct SlotFill {
  void* values;
  size_t bytes;          ///< An even number.
  const uint32_t* word;  ///< 0: the values stay.
  uint32_t zerosAt;      ///< At this value of the word they become zeros;
  uint32_t otherwise;    ///< at others this: 0 or kSlotNan.
};

/// Both bytes of it, again and again, are NaN in every floating-point type.
inline constexpr uint32_t kSlotNan = 0xffff;

/// The end of an encoding: a message's header.
struct SlotSeal {
  uint8_t* header;  ///< nullptr: there is no message, only `absent` is written.
  uint64_t elements;
  uint32_t codec;
  uint32_t payloadBytes;  ///< Unless the device knows them:
  const uint32_t* bytes;  ///< of the payload, from an encode; nullptr: there was none.
  /// 0 if the gradient that the message has, or all gradients of which it is the average, are zeros; nullptr:
  /// nobody asks.
  const uint32_t* nonzero;
  const uint32_t* notFinite;  ///< Not 0 if values of the payload are not finite; nullptr: nobody asks.
  const uint32_t*
      refused;             ///< 1 + the rank whose contribution was refused, or 0; nullptr: of a contribution.
  const uint32_t* errors;  ///< Of decoding the contribution of each rank, or 0; nullptr: of a contribution.
  uint32_t* absent;        ///< := kSlotAbsent or kSlotRefused, or 0; nullptr: the message is not an average.
  uint32_t ranks;
  uint8_t raw;
  uint8_t dtype;
  uint16_t unused = 0;
};

/// Values of SlotSeal::absent and SlotCheck::absent.
enum : uint32_t {
  kSlotAbsent = 1,   ///< No rank has a gradient: the average is zeros.
  kSlotRefused = 2,  ///< The average is zeros, or NaN, because a message was refused.
};

/// A message that has come, and what the receiver expects of its header.
struct SlotCheck {
  const uint8_t* header;
  uint64_t elements;
  uint32_t codec;
  uint32_t mostBytes;  ///< Of the payload; a raw one has as many.
  uint32_t sender;
  uint8_t raw;
  uint8_t dtype;
  uint16_t unused = 0;
  uint32_t* refused;  ///< kSlotRefusal words; they keep the first refusal.
  uint32_t* nonzero;  ///< Of a contribution or partial sum: := 1 unless the gradient was zeros. nullptr:
                      ///< nobody asks.
  uint32_t* absent;   ///< Of an average: as of SlotSeal. nullptr: the message is none.
};

/// The words of a refusal: 1 + the sender's rank, and the header.
inline constexpr size_t kSlotRefusal = 9;

/// A state of a codec after a step, and before it.
struct SlotRestore {
  const uint32_t* absent;  ///< Not 0: the slot keeps its states.
  const float* before;
  float* state;
  size_t count;
};

}  // namespace hipress
