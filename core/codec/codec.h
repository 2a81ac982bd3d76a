// SPDX-License-Identifier: Apache-2.0
//
// The interface of a codec: a configured, immutable, thread-safe object that encodes a span of float32 into
// bytes and decodes the bytes. A codec knows no topology, no transport and no framework. The caller owns the
// codec's states (such as residuals) and passes them to each call (see state_store.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/codec/parallel.h"

namespace hipress::cuda {
struct CudaCodec;
}

namespace hipress {

class SummedEncoding;

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

/// Number of a codec on the wire; see docs/wire-format.md. Built-in codecs have fixed numbers below 1024.
using CodecId = uint32_t;

/// All inputs of an encode besides values and states. They are the same on every device and in the reference
/// interpreter, so random rounding is reproducible (Philox, keyed by seed, step, tensor and element). The
/// engine gives each rank, and each purpose of an encode, a different seed.
struct EncodeContext {
  uint64_t seed = 0;
  uint64_t step = 0;             ///< The number of earlier synchronisations of this tensor.
  uint32_t tensor = 0;           ///< Tensor id, the same on all ranks.
  uint64_t firstElement = 0;     ///< Index in the tensor of input[0].
  float scale = 1.0f;            ///< Factor of all input values; the codec applies it first.
  Parallel* parallel = nullptr;  ///< More threads; nullptr: the caller's only. The result is the same.
};

/// A state of a codec: a vector of floats that encode() updates in each step. It has one float for each input
/// element, or one for each block of elements.
struct CodecState {
  std::string name;
  size_t block = 1;  ///< Input elements for each float. It divides kStateBlock.

  /// The number of floats for so many input elements.
  size_t count(size_t elements) const { return elements / block + (elements % block == 0 ? 0 : 1); }
  bool operator==(const CodecState&) const = default;
};

/// Partitions of a tensor begin at multiples of this number of elements, so no block is in two of them.
inline constexpr size_t kStateBlock = 1024;

/// The states for encode(). Each span is empty, or has one pointer per entry of Codec::states(); each pointer
/// leads to as many floats as CodecState::count() says. encode() reads `before` and writes `after`, and no
/// two vectors overlap. So a failure at the very end costs no copy and no undo.
struct EncodeStates {
  std::span<const float* const> before;
  std::span<float* const> after;
};

/// The options of a codec without encoding. Such a codec sends a matrix as the product of two factors, and
/// all ranks sum one factor after the other (builtin/powersgd.h).
struct LowRank {
  size_t rank = 1;        ///< Most vectors of each factor.
  double minRatio = 2.0;  ///< Smallest ratio of matrix to factors at which it travels as factors.
  bool errorFeedback = true;
  bool warmStart = true;
};

enum class DecodeMode : uint8_t {
  kAssign,      ///< output = decoded
  kAccumulate,  ///< output += decoded
};

class Codec {
 public:
  virtual ~Codec() = default;

  /// The name that users write: "onebit".
  virtual std::string_view name() const = 0;
  /// The name and all options with values, in a fixed order. Ranks compare signatures. Example:
  /// "onebit(error_feedback=true)".
  virtual std::string signature() const = 0;
  virtual CodecId id() const = 0;

  /// The states. A codec with a residual also has the option error_feedback, and keeps no residual without
  /// the option. A residual has one float for each element.
  virtual std::span<const CodecState> states() const { return {}; }

  /// The codec with which an aggregator encodes merged values; nullptr: this codec. Each of the two decodes
  /// the other's payloads. A codec with a momentum, for example, must not apply it to merged values again.
  virtual std::shared_ptr<const Codec> forAggregate() const { return nullptr; }

  /// The factor of gradients: a caller that encodes a gradient multiplies its scale by it, and multiplies
  /// each gradient that it merges unencoded with such messages. It is 1 for forAggregate().
  virtual float gradientFactor() const { return 1.0f; }

  /// nullptr for a codec that encodes. A codec with LowRank throws Unsupported from encode(), decode() and
  /// maxEncodedBytes(): the engine updates the states and sums the factors (casync/run/linked_step.h).
  virtual const LowRank* lowRank() const { return nullptr; }

  /// nullptr, unless ranks can add the encoded values of this codec (summed_encoding.h). encode() and
  /// decode() work without other ranks, too.
  virtual const SummedEncoding* summed() const { return nullptr; }

  /// The codec's kernels for GPUs and their start functions; nullptr: the codec runs on the host only.
  virtual const cuda::CudaCodec* kernels() const { return nullptr; }

  /// Upper bound in bytes of encode()'s result for any input of `count` elements, without the wire header.
  virtual size_t maxEncodedBytes(size_t count) const = 0;

  /// Encodes scale·input into `output`, which has room for maxEncodedBytes(input.size()) bytes, and returns
  /// the number of bytes written. May read `input` several times, and never writes it. Without states, the
  /// codec reads zeros in place of old states and drops the new ones.
  ///
  /// Returns 0 for an input without elements. Any other 0 means that scale·input or a new state was not
  /// finite. `after` is then undefined: the caller keeps `before` and sends the empty payload, which decodes
  /// to NaN in all elements. After any other result the caller takes `after` as the new states.
  virtual size_t encode(std::span<const float> input, const EncodeStates& states,
                        const EncodeContext& context, Bytes output) const = 0;

  /// Decodes `payload` and assigns the values to `output` or adds them. The payload comes from the network:
  /// the codec checks its size, counts and indices before the first write. Throws CorruptPayload and leaves
  /// `output` unchanged. An empty payload for one element or more is a failed encode: NaN everywhere.
  void decode(ConstBytes payload, std::span<float> output, DecodeMode mode,
              Parallel* parallel = nullptr) const;

 protected:
  /// The part of decode() for a payload of at least one byte and an output of at least one element.
  virtual void decodePayload(ConstBytes payload, std::span<float> output, DecodeMode mode,
                             Parallel* parallel) const = 0;
};

using CodecPointer = std::shared_ptr<const Codec>;

}  // namespace hipress
