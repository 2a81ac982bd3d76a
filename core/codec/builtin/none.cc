// SPDX-License-Identifier: Apache-2.0
#include "core/codec/builtin/none.h"

#include "core/codec/text/arguments.h"
#include "core/element/multiversion.h"
#include "core/element/unaligned.h"

namespace hipress {
namespace {

template <IsaLevel>
struct Scale {
  static void run(const float* input, float scale, Unaligned<float>* output, size_t count) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) output[i].value = scale * input[i];
  }
};

template <IsaLevel>
struct Copy {
  static void run(const Unaligned<float>* payload, float* output, size_t count) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) output[i] = payload[i].value;
  }
};

template <IsaLevel>
struct Add {
  static void run(const Unaligned<float>* payload, float* output, size_t count) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) output[i] += payload[i].value;
  }
};

class None final : public Codec {
 public:
  std::string_view name() const override { return "none"; }
  std::string signature() const override { return "none"; }
  CodecId id() const override { return 0; }
  size_t maxEncodedBytes(size_t count) const override { return count * sizeof(float); }

  size_t encode(std::span<const float> input, const EncodeStates& states, const EncodeContext& context,
                Bytes output) const override {
    checkEncodeArguments(*this, input, states, output);
    multiversion<Scale>(input.data(), context.scale, reinterpret_cast<Unaligned<float>*>(output.data()),
                        input.size());
    return input.size_bytes();
  }

  void decodePayload(ConstBytes payload, std::span<float> output, DecodeMode mode, Parallel*) const override {
    checkPayloadSize(*this, payload, output.size(), output.size_bytes());
    const auto* values = reinterpret_cast<const Unaligned<float>*>(payload.data());
    if (mode == DecodeMode::kAssign) {
      multiversion<Copy>(values, output.data(), output.size());
    } else {
      multiversion<Add>(values, output.data(), output.size());
    }
  }
};

}  // namespace

CodecDescription describeNone() {
  return {.name = "none", .id = 0, .summary = "The values themselves, uncompressed."};
}

CodecPointer createNone(const CodecOptions&) {
  return std::make_shared<None>();
}

}  // namespace hipress
