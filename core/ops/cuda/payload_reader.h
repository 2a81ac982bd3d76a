// SPDX-License-Identifier: Apache-2.0
//
// Reads the fields of a message for `extract`, in one thread. It checks every field before use. The first
// fault sets *stop to the code of its field, and ends the reading.
#pragma once

#include <cstring>

#include "core/ops/block.h"
#include "core/ops/cuda/execution.h"

namespace hipress::cuda {

class PayloadReader {
 public:
  HIPRESS_DEVICE PayloadReader(const uint8_t* payload, size_t bytes, uint32_t* stop)
      : at_(payload), left_(bytes), stop_(stop) {}

  HIPRESS_DEVICE float scalarFloat(uint32_t code) { return scalar<float>(code); }
  HIPRESS_DEVICE int32_t scalarInt(uint32_t code) { return scalar<int32_t>(code); }
  HIPRESS_DEVICE int32_t scalarUint16(uint32_t code) { return scalar<uint16_t>(code); }
  HIPRESS_DEVICE int32_t scalarPacked(unsigned width, uint32_t code) {
    const int32_t value = scalar<uint8_t>(code);
    const bool fits = width == ops::kTrits ? value <= 2 : (value >> width) == 0;
    return fits ? value : refuse(code);
  }

  /// A number of 9 to 15 bits, in two bytes.
  HIPRESS_DEVICE int32_t scalarWide(unsigned width, uint32_t code) {
    const int32_t value = scalar<uint16_t>(code);
    return (value >> width) == 0 ? value : refuse(code);
  }

  HIPRESS_DEVICE size_t count(int32_t elements, uint32_t code) {
    return static_cast<size_t>(elements < 0 ? refuse(code) : elements);
  }
  /// Elements of the last field, which takes the rest of the message.
  HIPRESS_DEVICE size_t rest(unsigned width, uint32_t code) {
    return left_ * 8 % width != 0 ? static_cast<size_t>(refuse(code)) : left_ * 8 / width;
  }

  /// Elements of `size` bytes.
  HIPRESS_DEVICE const uint8_t* numbers(size_t elements, size_t size, uint32_t code) {
    return take(size * elements, code);
  }

  /// Digits (kTrits) need checkTrits() besides.
  HIPRESS_DEVICE const uint8_t* packed(size_t elements, unsigned width, uint32_t code) {
    const size_t bytes = ops::packedBytes(elements, width);
    const uint8_t* const field = take(bytes, code);
    const auto used = static_cast<unsigned>(elements * width % 8);
    if (*stop_ == 0 && width != ops::kTrits && used != 0 && (field[bytes - 1] >> used) != 0) refuse(code);
    return field;
  }

  HIPRESS_DEVICE void finish(uint32_t code) {
    if (left_ != 0) refuse(code);
  }

 private:
  HIPRESS_DEVICE int32_t refuse(uint32_t code) {
    if (*stop_ == 0) *stop_ = code;
    return 0;
  }

  HIPRESS_DEVICE const uint8_t* take(size_t bytes, uint32_t code) {
    const uint8_t* const field = at_;
    if (*stop_ != 0 || bytes > left_) {
      refuse(code);
      return field;
    }
    at_ += bytes;
    left_ -= bytes;
    return field;
  }

  template <typename T>
  HIPRESS_DEVICE T scalar(uint32_t code) {
    const uint8_t* const field = take(sizeof(T), code);
    if (*stop_ != 0) return T{};
    uint8_t bytes[sizeof(T)];
    for (size_t i = 0; i < sizeof(T); ++i) bytes[i] = field[i];
    T value;
    std::memcpy(&value, bytes, sizeof(T));
    return value;
  }

  const uint8_t* at_;
  size_t left_;
  uint32_t* stop_;
};

}  // namespace hipress::cuda
