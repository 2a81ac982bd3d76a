// SPDX-License-Identifier: Apache-2.0
//
// The decoders' fuzzer input: a byte for the codec, one for the way of the call, two for the element count.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/codec/codec.h"
#include "tests/fuzz/driver/target.h"

namespace hipress::fuzz {

/// The codecs under test: all built-in codecs, with the options that change their messages.
inline constexpr const char* kCodecs[] = {
    "none",
    "fp16",
    "onebit",
    "onebit(block=64)",
    "onebit(block=1000)",
    "tbq",
    "tbq(threshold=1e38)",
    "terngrad(bitwidth=1)",
    "terngrad(bitwidth=2)",
    "terngrad(bitwidth=4)",
    "terngrad(bitwidth=8)",
    "dgc",
    "dgc(ratio=0.1)",
    "dgc(ratio=1)",
    "graddrop",
    "graddrop(ratio=0.1)",
    "graddrop(ratio=1)",
    "bf16",
    "int8",
    "int8(block=16)",
    "int8(block=1000)",
    "int4",
    "int4(block=17)",
    "fp8_e4m3",
    "fp8_e5m2(block=16)",
    "fp4_e2m1",
    "fp4_e2m1(block=17)",
    "efsignsgd",
    "efsignsgd(block=64)",
    "qsgd(block=16)",
    "natural",
    "topk(ratio=0.1)",
    "threshold",
    "randomk(ratio=0.1)",
    "u8bit(block=17)",
    "dynamiq",
    "dynamiq(bits=3, block=32)",
    "int8_shared",
    "int8_shared(levels=31, block=16)",
    "thc",
    "thc(levels=31)",
};
inline constexpr size_t kCodecCount = sizeof(kCodecs) / sizeof(*kCodecs);

inline constexpr size_t kMaxElements = 8192;

/// The second byte. Bits 0 and 1 are the payload's address modulo four; bits 2 and 3 are the instruction-set
/// level. With bit 4 the payload is repeated or cut to the size of the longest message.
inline constexpr uint8_t kFitBit = 1 << 4;

inline constexpr size_t kPrefixBytes = 4;

/// The codec with this number; the first call makes it.
const Codec& codecNumber(size_t number);

}  // namespace hipress::fuzz
