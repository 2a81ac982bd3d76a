// SPDX-License-Identifier: Apache-2.0
//
// Tests every decoder with any bytes. It must decode them, or throw CorruptPayload and write nothing, and it
// must not touch other memory. All instruction-set levels must decode the same values, and an accumulating
// decode must add these values.
#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "core/base/error.h"
#include "core/codec/registry.h"
#include "core/element/multiversion.h"
#include "tests/core/stress/world/check.h"
#include "tests/fuzz/codecs.h"
#include "tests/fuzz/levels.h"

namespace hipress::fuzz {
namespace {

constexpr size_t kGuard = 64;  // floats: four times the widest store
constexpr float kGuardValue = -1234.5f;

/// Memory with known contents between two guards. The sanitizer reports ordinary code that touches poisoned
/// guards at once. It does not see masked and scattered stores, so the test also compares the guards' values.
class Output {
 public:
  explicit Output(size_t count) : values_(kGuard + count + kGuard, kGuardValue), count_(count) {
    for (size_t i = 0; i < count; ++i) values_[kGuard + i] = known(i);
    ASAN_POISON_MEMORY_REGION(values_.data(), kGuard * sizeof(float));
    ASAN_POISON_MEMORY_REGION(end(), kGuard * sizeof(float));
  }
  ~Output() {
    ASAN_UNPOISON_MEMORY_REGION(values_.data(), kGuard * sizeof(float));
    ASAN_UNPOISON_MEMORY_REGION(end(), kGuard * sizeof(float));
    for (size_t i = 0; i < kGuard; ++i) {
      CHECK(values_[i] == kGuardValue, i);
      CHECK(end()[i] == kGuardValue, i);
    }
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  static float known(size_t i) { return 0.5f + static_cast<float>(i % 97); }
  std::span<float> values() { return {values_.data() + kGuard, count_}; }

 private:
  float* end() { return values_.data() + kGuard + count_; }

  std::vector<float> values_;
  size_t count_;
};

bool same(float left, float right) {
  return std::bit_cast<uint32_t>(left) == std::bit_cast<uint32_t>(right) ||
         (std::isnan(left) && std::isnan(right));
}

/// Decodes the payload. Returns an empty text, or the text of the error.
std::string decode(const Codec& codec, ConstBytes payload, Output& output, DecodeMode mode, IsaLevel level) {
  setIsaLevel(compiledLevel(level));
  try {
    codec.decode(payload, output.values(), mode);
    return {};
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kCorruptPayload, error.what());
    for (size_t i = 0; i < output.values().size(); ++i) {
      CHECK(same(output.values()[i], Output::known(i)), codec.signature(), i, error.what());
    }
    CHECK(*error.what() != '\0', codec.signature());
    return error.what();
  }
}

/// A copy of the payload that ends at the end of its block of memory.
struct Payload {
  Payload(std::span<const uint8_t> from, size_t bytes, size_t offset)
      : block(new std::byte[offset + bytes]), view(block.get() + offset, bytes) {
    for (size_t i = 0; i < bytes; ++i) view[i] = static_cast<std::byte>(from[i % from.size()]);
  }
  std::unique_ptr<std::byte[]> block;
  Bytes view;
};

}  // namespace

const Codec& codecNumber(size_t number) {
  static const auto codecs = [] {
    std::vector<CodecPointer> all;
    for (const char* text : kCodecs) all.push_back(createCodec(text));
    for (const CodecDescription& known : describeCodecs()) {
      const bool listed =
          std::ranges::any_of(all, [&](const auto& one) { return one->name() == known.name; });
      CHECK(listed, known.name, "is not fuzzed: add it to kCodecs");
    }
    return all;
  }();
  return *codecs[number % kCodecCount];
}

void runTarget(std::span<const uint8_t> input) {
  if (input.size() < kPrefixBytes) return;
  const Codec& codec = codecNumber(input[0]);
  const uint8_t choice = input[1];
  const size_t count = (input[2] + 256u * input[3]) % kMaxElements;
  const auto from = input.subspan(kPrefixBytes);
  const bool fit = (choice & kFitBit) != 0 && !from.empty();
  const Payload payload(from, fit ? codec.maxEncodedBytes(count) : from.size(), choice & 3);

  Output reference(count);
  const std::string refused = decode(codec, payload.view, reference, DecodeMode::kAssign, IsaLevel::kGeneric);
  for (const DecodeMode mode : {DecodeMode::kAssign, DecodeMode::kAccumulate}) {
    Output output(count);
    const auto level = static_cast<IsaLevel>(choice >> 2 & 3);
    const std::string refusedToo = decode(codec, payload.view, output, mode, level);
    CHECK(refused == refusedToo, codec.signature(), "generic:", refused, "here:", refusedToo);
    if (!refused.empty()) continue;
    for (size_t i = 0; i < count; ++i) {
      const float decoded = reference.values()[i];
      const float expected = mode == DecodeMode::kAccumulate ? Output::known(i) + decoded : decoded;
      CHECK(same(output.values()[i], expected), codec.signature(), i, output.values()[i], expected);
    }
  }
}

}  // namespace hipress::fuzz
