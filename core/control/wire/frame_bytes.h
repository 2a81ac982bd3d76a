// SPDX-License-Identifier: Apache-2.0
//
// Writes and reads the parts of a frame: integers, texts, durations, error kinds. message.h describes the
// layout.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/control/message.h"

namespace hipress::control {

class FrameWriter {
 public:
  explicit FrameWriter(FrameType type) : bytes_(kFrameHeader, '\0') { bytes_[4] = static_cast<char>(type); }

  template <std::integral T>
  FrameWriter& number(T value) {
    for (size_t i = 0; i < sizeof(T); ++i)
      bytes_.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
    return *this;
  }

  FrameWriter& text(std::string_view value) {
    number(static_cast<uint32_t>(value.size()));
    bytes_.append(value);
    return *this;
  }

  /// `following`: bytes of the payload that the sender will send after these.
  std::string finish(size_t following = 0) {
    const size_t length = bytes_.size() - kFrameHeader + following;
    for (size_t i = 0; i < 4; ++i) bytes_[i] = static_cast<char>(length >> (8 * i));
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

class FrameReader {
 public:
  explicit FrameReader(std::string_view bytes) : rest_(bytes) {}

  template <std::integral T>
  T number() {
    uint64_t value = 0;
    const std::string_view bytes = take(sizeof(T));
    for (size_t i = 0; i < sizeof(T); ++i)
      value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
    return static_cast<T>(value);
  }

  std::string text(size_t limit) {
    const auto size = number<uint32_t>();
    if (size > limit) throw Malformed("a text is longer than allowed");
    return std::string(take(size));
  }

  Milliseconds duration() {
    const auto value = number<uint64_t>();
    return clampTimeout(value > INT64_MAX ? Milliseconds::max() : Milliseconds(static_cast<int64_t>(value)));
  }

  ErrorKind error() {
    const auto value = number<uint8_t>();
    if (value < static_cast<uint8_t>(ErrorKind::kInvalidArgument) ||
        value > static_cast<uint8_t>(ErrorKind::kRefused)) {
      throw Malformed("an unknown error kind");
    }
    return static_cast<ErrorKind>(value);
  }

  void end() const {
    if (!rest_.empty()) throw Malformed("a message is longer than its content");
  }

 private:
  std::string_view take(size_t size) {
    if (size > rest_.size()) throw Malformed("a message ends early");
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }

  std::string_view rest_;
};

}  // namespace hipress::control
