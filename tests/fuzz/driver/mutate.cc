// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/driver/mutate.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "tests/fuzz/driver/comparisons.h"

namespace hipress::fuzz {
namespace {

using Difference = Input::difference_type;

struct Range {
  size_t begin;
  size_t length;
};

/// A part of the input, empty only if the input is. It is often short, and often it consists of whole aligned
/// words, because payloads consist of words.
Range someRange(const Input& input, Random& random) {
  if (input.empty()) return {0, 0};
  const size_t unit = random.oneIn(2) && input.size() >= 4 ? 4 : 1;
  const size_t units = input.size() / unit;
  const size_t begin = random.below(units);
  const size_t most = random.oneIn(2) ? std::min<size_t>(units - begin, 4) : units - begin;
  return {begin * unit, (1 + random.below(most)) * unit};
}

/// A position in a non-empty input; often near its beginning, where codec choices and counts are.
size_t somewhere(const Input& input, Random& random) {
  return random.below(random.oneIn(4) ? std::min<size_t>(input.size(), 32) : input.size());
}

void write(Input& input, size_t at, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes && at + i < input.size(); ++i)
    input[at + i] = static_cast<uint8_t>(value >> (8 * i));
}

void insert(Input& input, size_t at, const Input& piece) {
  input.insert(input.begin() + static_cast<Difference>(at), piece.begin(), piece.end());
}

Input copied(const Input& input, Range range) {
  const auto begin = input.begin() + static_cast<Difference>(range.begin);
  return {begin, begin + static_cast<Difference>(range.length)};
}

void flipBit(Input& input, const Input&, Random& random) {
  if (input.empty()) return;
  input[somewhere(input, random)] ^= static_cast<uint8_t>(1u << random.below(8));
}

void setByte(Input& input, const Input&, Random& random) {
  if (input.empty()) return;
  input[somewhere(input, random)] = static_cast<uint8_t>(random.below(256));
}

/// Writes an integer that often exposes errors: a limit, or a value near zero or near the input's length.
void setInteger(Input& input, const Input&, Random& random) {
  if (input.empty()) return;
  const size_t bytes = size_t{1} << random.below(4);
  const uint64_t top = uint64_t{1} << (8 * bytes - 1);
  const uint64_t values[] = {0, 1, ~uint64_t{0}, top, top - 1, input.size(), input.size() / 4};
  const uint64_t value = values[random.below(std::size(values))] + random.below(3) - 1;
  const bool aligned = random.oneIn(2);
  const size_t at = somewhere(input, random);
  write(input, aligned ? at / bytes * bytes : at, value, bytes);
}

/// Makes a number at a random position a little larger or smaller.
void addSmall(Input& input, const Input&, Random& random) {
  if (input.empty()) return;
  const size_t bytes = std::min(size_t{1} << random.below(4), input.size());
  const size_t at = random.below(input.size() - bytes + 1);
  uint64_t value = 0;
  std::memcpy(&value, input.data() + at, bytes);
  write(input, at, value + random.below(33) - 16, bytes);
}

void eraseRange(Input& input, const Input&, Random& random) {
  const Range range = someRange(input, random);
  const auto begin = input.begin() + static_cast<Difference>(range.begin);
  input.erase(begin, begin + static_cast<Difference>(range.length));
}

void duplicateRange(Input& input, const Input&, Random& random) {
  const Range range = someRange(input, random);
  insert(input, range.begin, copied(input, range));
}

void copyOver(Input& input, const Input&, Random& random) {
  if (input.empty()) return;
  const Range range = someRange(input, random);
  const Input piece = copied(input, range);
  const size_t at = random.below(input.size() - range.length + 1);
  std::copy(piece.begin(), piece.end(), input.begin() + static_cast<Difference>(at));
}

void insertBytes(Input& input, const Input&, Random& random) {
  Input piece(size_t{1} << random.below(6));
  const bool same = random.oneIn(2);
  const auto first = static_cast<uint8_t>(random.below(256));
  for (uint8_t& byte : piece) byte = same ? first : static_cast<uint8_t>(random.below(256));
  insert(input, random.below(input.size() + 1), piece);
}

void truncate(Input& input, const Input&, Random& random) {
  input.resize(random.below(input.size() + 1));
}

void extend(Input& input, const Input&, Random& random) {
  input.resize(input.size() + 1 + random.below(64), static_cast<uint8_t>(random.below(256)));
}

/// Joins the beginning of this input and the end of the other one.
void splice(Input& input, const Input& other, Random& random) {
  if (other.empty()) return;
  const size_t at = random.below(std::min(input.size(), other.size()) + 1);
  input.resize(at);
  input.insert(input.end(), other.begin() + static_cast<Difference>(at), other.end());
}

void insertOther(Input& input, const Input& other, Random& random) {
  insert(input, random.below(input.size() + 1), copied(other, someRange(other, random)));
}

/// Finds one side of a comparison in the input and replaces it by the other side. Code compares sizes as
/// eight bytes, but messages have them in four or fewer, so the search also tries shorter forms.
void satisfyComparison(Input& input, const Input&, Random& random) {
  const Comparison& found = comparison(random.below(kComparisons));
  if (found.bytes == 0 || input.empty()) return;
  const bool swapped = random.oneIn(2);
  const uint64_t from = swapped ? found.right : found.left;
  const uint64_t to = (swapped ? found.left : found.right) + (random.oneIn(4) ? random.below(3) - 1 : 0);
  for (size_t bytes = found.bytes; bytes >= 1; bytes /= 2) {
    const size_t start = random.below(input.size());
    for (size_t i = 0; i < input.size(); ++i) {
      const size_t at = (start + i) % input.size();
      if (at + bytes > input.size()) continue;
      uint64_t value = 0;
      std::memcpy(&value, input.data() + at, bytes);
      const uint64_t mask = bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * bytes)) - 1;
      if (value == (from & mask)) return write(input, at, to, bytes);
    }
    if ((from >> (4 * bytes)) != 0) break;  // does not fit into half the bytes
  }
}

constexpr auto kMutations =
    std::to_array({flipBit, setByte, setInteger, addSmall, eraseRange, duplicateRange, copyOver, insertBytes,
                   truncate, extend, splice, insertOther, satisfyComparison, satisfyComparison});

}  // namespace

void mutate(Input& input, const Input& other, Random& random) {
  const size_t changes = size_t{1} << random.below(4);
  for (size_t i = 0; i < changes; ++i) kMutations[random.below(kMutations.size())](input, other, random);
  if (input.size() > kMaxInputBytes) input.resize(kMaxInputBytes);
}

}  // namespace hipress::fuzz
