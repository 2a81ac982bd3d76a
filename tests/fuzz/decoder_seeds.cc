// SPDX-License-Identifier: Apache-2.0
//
// Payloads of each codec as inputs. Starting from random bytes, a fuzzer would have to find ascending indices
// and fitting counts before it could change one of them.
#include <algorithm>
#include <cmath>
#include <string>

#include "tests/core/stress/world/check.h"
#include "tests/fuzz/codecs.h"

namespace hipress::fuzz {
namespace {

Input seed(size_t number, size_t count) {
  const Codec& codec = codecNumber(number);
  std::vector<float> gradient(count);
  for (size_t i = 0; i < count; ++i) gradient[i] = 2 * std::sin(static_cast<float>(7 * i + 1));
  Input input(kPrefixBytes + codec.maxEncodedBytes(count));
  input[0] = static_cast<uint8_t>(number);
  input[1] = 3 << 2;
  input[2] = static_cast<uint8_t>(count);
  input[3] = static_cast<uint8_t>(count >> 8);
  const size_t bytes =
      codec.encode(gradient, {}, {}, std::as_writable_bytes(std::span(input).subspan(kPrefixBytes)));
  CHECK(bytes != 0, codec.signature());
  input.resize(kPrefixBytes + bytes);
  return input;
}

std::string fileName(size_t number, size_t count) {
  std::string name = kCodecs[number];
  std::ranges::replace_if(name, [](char c) { return c == '(' || c == '='; }, '-');
  std::erase(name, ')');
  return name + "-" + std::to_string(count);
}

}  // namespace

std::vector<Seed> targetSeeds() {
  std::vector<Seed> seeds;
  for (size_t number = 0; number < kCodecCount; ++number) {
    for (const size_t count : {1, 130}) seeds.push_back({fileName(number, count), seed(number, count)});
  }
  return seeds;
}

}  // namespace hipress::fuzz
