// SPDX-License-Identifier: Apache-2.0
#include "core/weights/changes.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "core/base/error.h"
#include "core/element/multiversion.h"

namespace hipress {
namespace {

/// Bytes of one comparison. In most tensors most blocks are equal.
constexpr size_t kBlock = 128;
/// Bytes of a number: each byte has seven bits of it.
constexpr size_t kLongestNumber = 10;

/// The start of the first block that differs, from `first` on; `bytes` if no block differs. `first` must be
/// the start of a block.
template <IsaLevel level>
struct FirstDifference {
  static size_t run(const std::byte* old, const std::byte* now, size_t first, size_t bytes) {
    size_t at = first;
    for (; at + kBlock <= bytes; at += kBlock) {
      uint64_t different = 0;
      for (size_t word = 0; word < kBlock; word += sizeof(uint64_t)) {
        uint64_t one = 0;
        uint64_t other = 0;
        std::memcpy(&one, old + at + word, sizeof(one));
        std::memcpy(&other, now + at + word, sizeof(other));
        different |= one ^ other;
      }
      if (different != 0) return at;
    }
    return at < bytes && std::memcmp(old + at, now + at, bytes - at) != 0 ? at : bytes;
  }
};

std::byte* putNumber(std::byte* to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) *to++ = static_cast<std::byte>(value | 0x80);
  *to++ = static_cast<std::byte>(value);
  return to;
}

/// Writes runs of changed elements, one after the other.
class Writer {
 public:
  Writer(size_t elementBytes, size_t limit) : elementBytes_(elementBytes), limit_(limit) {}

  /// Returns false if the result would be longer than the limit.
  bool put(size_t skipped, const std::byte* values, size_t count) {
    const size_t most = 2 * kLongestNumber + count * elementBytes_;
    if (used_ + most > bytes_.size()) bytes_.resize(std::max(used_ + most, 2 * bytes_.size()));
    std::byte* to = putNumber(bytes_.data() + used_, skipped << 1 | (count > 1 ? 1 : 0));
    if (count > 1) to = putNumber(to, count - 2);
    std::memcpy(to, values, count * elementBytes_);
    used_ = static_cast<size_t>(to - bytes_.data()) + count * elementBytes_;
    return used_ <= limit_;
  }

  std::vector<std::byte> finish() {
    bytes_.resize(used_);
    return std::move(bytes_);
  }

 private:
  const size_t elementBytes_;
  const size_t limit_;
  size_t used_ = 0;
  std::vector<std::byte> bytes_;
};

template <size_t kBytes>
std::optional<std::vector<std::byte>> encode(std::span<std::byte> old, std::span<const std::byte> now,
                                             size_t limit) {
  Writer writer(kBytes, limit);
  const size_t bytes = now.size();
  size_t described = 0;  // bytes of the tensor described so far
  size_t begin = bytes;  // start of the current run; `bytes`: none
  const auto end = [&](size_t at) {
    const bool fits = writer.put((begin - described) / kBytes, now.data() + begin, (at - begin) / kBytes);
    std::memcpy(old.data() + begin, now.data() + begin, at - begin);
    described = at;
    begin = bytes;
    return fits;
  };
  for (size_t block = 0; block < bytes; block += kBlock) {
    if (begin == bytes) {
      block =
          multiversion<FirstDifference>(static_cast<const std::byte*>(old.data()), now.data(), block, bytes);
    }
    const size_t after = std::min(block + kBlock, bytes);
    for (size_t at = block; at < after; at += kBytes) {
      const bool differs = std::memcmp(old.data() + at, now.data() + at, kBytes) != 0;
      if (differs && begin == bytes) begin = at;
      if (!differs && begin != bytes && !end(at)) return std::nullopt;
    }
  }
  if (begin != bytes && !end(bytes)) return std::nullopt;
  return writer.finish();
}

void checkSizes(size_t tensorBytes, size_t elementBytes) {
  constexpr size_t kSizes[] = {1, 2, 4, 8, 16};
  if (std::ranges::find(kSizes, elementBytes) == std::end(kSizes)) {
    throw invalidArgument("an element has " + std::to_string(elementBytes) +
                          " bytes; it must have 1, 2, 4, 8 or 16 bytes");
  }
  if (tensorBytes % elementBytes != 0) {
    throw invalidArgument("a tensor of " + std::to_string(tensorBytes) + " bytes has no whole elements of " +
                          std::to_string(elementBytes));
  }
}

/// Reads runs of elements of kBytes, and checks each run.
template <size_t kBytes>
class Reader {
 public:
  Reader(std::span<const std::byte> changes, size_t tensorBytes)
      : begin_(changes.data()), at_(begin_), end_(begin_ + changes.size()), elements_(tensorBytes / kBytes) {}

  /// Calls visit(first element, values, number of elements) for each run.
  template <typename Visit>
  void each(Visit visit) {
    size_t element = 0;
    while (at_ != end_) {
      const uint64_t skipped = number();
      const size_t left = elements_ - element;
      if ((skipped >> 1) >= left) throw corrupt("it changes elements behind the tensor's end");
      element += static_cast<size_t>(skipped >> 1);
      if ((skipped & 1) == 0) {
        if (static_cast<size_t>(end_ - at_) < kBytes) throw corrupt("its values are cut off");
        visit(element, at_, std::integral_constant<size_t, 1>{});
        at_ += kBytes;
        ++element;
        continue;
      }
      const uint64_t more = number();
      const size_t rest = elements_ - element;
      if (rest < 2 || more > rest - 2) throw corrupt("it changes elements behind the tensor's end");
      const auto count = static_cast<size_t>(more) + 2;
      if (static_cast<size_t>(end_ - at_) / kBytes < count) throw corrupt("its values are cut off");
      visit(element, at_, count);
      at_ += count * kBytes;
      element += count;
    }
  }

 private:
  uint64_t number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) throw corrupt("it is cut off in a number");
      const auto byte = static_cast<uint64_t>(*at_++);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw corrupt("it has a number of more than 64 bits");
  }

  Error corrupt(const std::string& what) const {
    return corruptPayload("changes of a tensor of " + std::to_string(elements_) +
                          " elements are wrong at byte " + std::to_string(at_ - begin_) + ": " + what);
  }

  const std::byte* const begin_;
  const std::byte* at_;
  const std::byte* const end_;
  const size_t elements_;
};

/// Calls function(std::integral_constant<size_t, elementBytes>).
template <typename Function>
auto withElementBytes(size_t elementBytes, Function function) {
  switch (elementBytes) {
    case 1:
      return function(std::integral_constant<size_t, 1>{});
    case 2:
      return function(std::integral_constant<size_t, 2>{});
    case 4:
      return function(std::integral_constant<size_t, 4>{});
    case 8:
      return function(std::integral_constant<size_t, 8>{});
    default:
      return function(std::integral_constant<size_t, 16>{});
  }
}

}  // namespace

std::optional<std::vector<std::byte>> encodeChanges(std::span<std::byte> old, std::span<const std::byte> now,
                                                    size_t elementBytes, size_t limit) {
  checkSizes(now.size(), elementBytes);
  if (old.size() != now.size()) {
    throw invalidArgument("the older version has " + std::to_string(old.size()) + " bytes, the newer one " +
                          std::to_string(now.size()));
  }
  auto changes = withElementBytes(elementBytes, [&](auto size) { return encode<size()>(old, now, limit); });
  if (!changes) std::ranges::copy(now, old.begin());
  return changes;
}

void checkChanges(std::span<const std::byte> changes, size_t tensorBytes, size_t elementBytes) {
  checkSizes(tensorBytes, elementBytes);
  withElementBytes(elementBytes, [&](auto size) {
    Reader<size()>(changes, tensorBytes).each([](size_t, const std::byte*, size_t) {});
  });
}

void applyChanges(std::span<std::byte> tensor, std::span<const std::byte> changes, size_t elementBytes) {
  checkSizes(tensor.size(), elementBytes);
  withElementBytes(elementBytes, [&](auto size) {
    Reader<size()>(changes, tensor.size()).each([&](size_t first, const std::byte* values, auto count) {
      std::memcpy(tensor.data() + first * size(), values, count * size());
    });
  });
}

}  // namespace hipress
