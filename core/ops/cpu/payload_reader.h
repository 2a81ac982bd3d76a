// SPDX-License-Identifier: Apache-2.0
//
// Reads the fields of a message for `extract`. It checks every field before use, and its errors name codec
// and field.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/codec/codec.h"
#include "core/ops/block.h"
#include "core/ops/cpu/pack.h"
#include "core/ops/cpu/scratch.h"

namespace hipress::ops {

class PayloadReader {
 public:
  /// `payload` must outlive the fields. A vector at an unaligned address is copied to
  /// `scratch`.
  PayloadReader(std::string_view codec, ConstBytes payload, Scratch& scratch)
      : codec_(codec), payload_(payload), scratch_(scratch) {}

  float scalarFloat(const char* field) { return scalar<float>(field); }
  int32_t scalarInt(const char* field) { return scalar<int32_t>(field); }
  int32_t scalarUint16(const char* field) { return scalar<uint16_t>(field); }
  int32_t scalarPacked(const char* field, unsigned width) {
    const auto value = scalar<uint8_t>(field);
    if (width == kTrits && value > 2) refuse(field, "is " + std::to_string(value) + ", but is 0, 1 or 2");
    if (width != kTrits && (static_cast<unsigned>(value) >> width) != 0)
      refuse(field, "is " + std::to_string(value) + ", but has " + std::to_string(width) + " bits");
    return value;
  }

  /// A number of 9 to 15 bits, in two bytes.
  int32_t scalarWide(const char* field, unsigned width) {
    const auto value = scalar<uint16_t>(field);
    if ((static_cast<unsigned>(value) >> width) != 0)
      refuse(field, "is " + std::to_string(value) + ", but has " + std::to_string(width) + " bits");
    return value;
  }

  size_t count(const char* field, int32_t elements) {
    if (elements < 0) refuse(field, "would have " + std::to_string(elements) + " elements");
    return static_cast<size_t>(elements);
  }

  /// Elements of the last field, which takes the rest of the message.
  size_t rest(const char* field, unsigned width) {
    const size_t left = payload_.size() - at_;
    if (left * 8 % width != 0)
      refuse(field,
             "has " + std::to_string(left) + " bytes, " + std::to_string(width / 8) + " to an element");
    return left * 8 / width;
  }

  template <typename T>
  const T* vector(const char* field, size_t elements) {
    const std::byte* bytes = take(field, elements * sizeof(T));
    if (reinterpret_cast<uintptr_t>(bytes) % alignof(T) == 0) return reinterpret_cast<const T*>(bytes);
    T* copy = scratch_.take<T>(elements);
    if (elements != 0) std::memcpy(copy, bytes, elements * sizeof(T));
    return copy;
  }

  const uint8_t* packed(const char* field, size_t elements, unsigned width) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(take(field, packedBytes(elements, width)));
    if (width == kTrits) {
      if (!tritsAreWhole(bytes, elements)) refuse(field, "has a byte that is no five digits 0, 1 and 2");
    } else if (!paddingIsZero(bytes, elements, width))
      refuse(field, "has bits set beyond its last element, number " + std::to_string(elements));
    return bytes;
  }

  void finish() const {
    if (at_ != payload_.size()) {
      throw corruptPayload("codec " + std::string(codec_) + ": payload of " +
                           std::to_string(payload_.size()) + " bytes, expected " + std::to_string(at_));
    }
  }

 private:
  [[noreturn]] void refuse(const char* field, const std::string& what) const {
    throw corruptPayload("codec " + std::string(codec_) + ": '" + field + "' " + what);
  }

  const std::byte* take(const char* field, size_t bytes) {
    if (bytes > payload_.size() - at_) {
      refuse(field, "needs " + std::to_string(bytes) + " bytes at " + std::to_string(at_) +
                        ", the payload has " + std::to_string(payload_.size()));
    }
    at_ += bytes;
    return payload_.data() + at_ - bytes;
  }

  template <typename T>
  T scalar(const char* field) {
    T value;
    std::memcpy(&value, take(field, sizeof(T)), sizeof(T));
    return value;
  }

  std::string_view codec_;
  ConstBytes payload_;
  Scratch& scratch_;
  size_t at_ = 0;
};

}  // namespace hipress::ops
