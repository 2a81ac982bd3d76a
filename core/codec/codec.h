// SPDX-License-Identifier: Apache-2.0
//
// What a codec is to the rest of the system: a configured, immutable, thread-safe object that turns a span of
// float32 into bytes and back. A codec knows no topology, no transport and no framework; whatever it must
// remember between steps (error feedback) is passed in by its caller, who owns it (see residual_store.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace hipress {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

/// Number of a codec on the wire; see docs/wire-format.md. Numbers below 1024 are built in and never change.
using CodecId = uint32_t;

/// Everything that encoding may depend on besides the values; the same on every device and in the reference,
/// so that random rounding is reproducible (Philox keyed by seed, step, tensor and element).
struct EncodeContext {
  uint64_t seed = 0;
  uint64_t step = 0;          ///< How many times this tensor has been synchronised before.
  uint32_t tensor = 0;        ///< Tensor id, the same on all ranks.
  uint64_t firstElement = 0;  ///< Index, within the tensor, of input[0].
  float scale = 1.0f;         ///< Every input value is multiplied by this before anything else.
};

enum class DecodeMode : uint8_t {
  kAssign,      ///< output = decoded
  kAccumulate,  ///< output += decoded
};

class Codec {
 public:
  virtual ~Codec() = default;

  /// Name as users write it: "onebit".
  virtual std::string_view name() const = 0;
  /// Name and every option with its value, in a fixed order: what ranks compare.
  /// "onebit(error_feedback=true)".
  virtual std::string signature() const = 0;
  virtual CodecId id() const = 0;

  /// Whether encode() needs a residual of as many floats as the input (biased codecs with error feedback).
  virtual bool usesResidual() const = 0;

  /// Upper bound of encode()'s result for any input of `count` elements, in bytes, without the wire header.
  virtual size_t maxEncodedBytes(size_t count) const = 0;

  /// Encodes scale·input (+ residual) into `output`, which holds at least maxEncodedBytes(input.size())
  /// bytes, and returns the number of bytes written. Reads `input` once or twice and never writes it.
  ///
  /// `residual` is empty, or (only if usesResidual()) as long as the input; then afterwards
  ///     scale·input + old residual = decoded output + new residual    (to rounding, element by element).
  /// If scale·input + residual has a NaN or an infinity, the payload decodes to values of which at least one
  /// is not finite, and the residual keeps its old value.
  virtual size_t encode(std::span<const float> input, std::span<float> residual, const EncodeContext& context,
                        Bytes output) const = 0;

  /// Decodes `payload` into `output` (assigning or adding). The payload comes from the network: its size and
  /// every count or index in it are checked before the first write. Throws CorruptPayload, leaving `output`
  /// as it was.
  virtual void decode(ConstBytes payload, std::span<float> output, DecodeMode mode) const = 0;
};

using CodecPointer = std::shared_ptr<const Codec>;

}  // namespace hipress
