// SPDX-License-Identifier: Apache-2.0
//
// What a codec is to the rest of the system: a configured, immutable, thread-safe object that turns a span of
// float32 into bytes and back. A codec knows no topology, no transport and no framework; whatever it must
// remember between steps (error feedback) is passed in by its caller, who owns it (see state_store.h).
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

/// Number of a codec on the wire; see docs/wire-format.md. Numbers below 1024 are built in and never change.
using CodecId = uint32_t;

/// Everything that encoding may depend on besides values and states; the same on every device and in the
/// reference, so that random rounding is reproducible (Philox keyed by seed, step, tensor and element; the
/// engine gives each rank, and each purpose of an encode, a seed of its own).
struct EncodeContext {
  uint64_t seed = 0;
  uint64_t step = 0;             ///< How many times this tensor has been synchronised before.
  uint32_t tensor = 0;           ///< Tensor id, the same on all ranks.
  uint64_t firstElement = 0;     ///< Index, within the tensor, of input[0].
  float scale = 1.0f;            ///< Every input value is multiplied by this before anything else.
  Parallel* parallel = nullptr;  ///< More threads; nullptr: the caller's alone. The result is the same.
};

/// What encode() remembers: each span is empty, or has one pointer per entry of Codec::states() to as many
/// floats as the input has. `before` is read, `after` is written; no two vectors overlap. New values go to
/// other memory than the old so that a failure found at the very end costs neither a copy nor an undo.
struct EncodeStates {
  std::span<const float* const> before;
  std::span<float* const> after;
};

/// How a codec that has no encoding sends a matrix: as the product of two factors, which are summed over all
/// ranks one after the other (builtin/powersgd.h).
struct LowRank {
  size_t rank = 1;        ///< Vectors of each factor, at most.
  double minRatio = 2.0;  ///< A matrix of which the factors do not save this much is sent as it is.
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

  /// Name as users write it: "onebit".
  virtual std::string_view name() const = 0;
  /// Name and every option with its value, in a fixed order: what ranks compare.
  /// "onebit(error_feedback=true)".
  virtual std::string signature() const = 0;
  virtual CodecId id() const = 0;

  /// Names of the vectors of floats, each as long as the input, that encode() keeps from step to step. A
  /// codec that has a residual also has the option error_feedback, without which it has none.
  virtual std::span<const std::string> states() const { return {}; }

  /// The codec with which an aggregator encodes merged values again, nullptr for this one. decode() of either
  /// reads what the other encoded. (A momentum, for example, must not be applied a second time there.)
  virtual std::shared_ptr<const Codec> forAggregate() const { return nullptr; }

  /// nullptr for a codec that encodes. Otherwise encode(), decode() and maxEncodedBytes() throw Unsupported:
  /// a tensor's states and its sums are the runtime's (casync/run/linked_step.h).
  virtual const LowRank* lowRank() const { return nullptr; }

  /// nullptr, unless ranks can add what this codec encodes (summed_encoding.h). encode() and decode() work
  /// without other ranks, too.
  virtual const SummedEncoding* summed() const { return nullptr; }

  /// The codec's kernels for GPUs and the functions that start them; nullptr if it has none.
  virtual const cuda::CudaCodec* kernels() const { return nullptr; }

  /// Upper bound of encode()'s result for any input of `count` elements, in bytes, without the wire header.
  virtual size_t maxEncodedBytes(size_t count) const = 0;

  /// Encodes scale·input into `output`, which holds at least maxEncodedBytes(input.size()) bytes, and returns
  /// the number of bytes written. Reads `input` as often as it likes and never writes it. Without states,
  /// encode reads zeros in their place and drops what it would write.
  ///
  /// Returns 0 for an input without elements. Otherwise 0 means that scale·input or a new state was not
  /// finite: `after` holds garbage, the caller keeps `before`, and sends the empty payload, which decodes to
  /// NaN everywhere. After any other result the caller takes `after` as the new states.
  virtual size_t encode(std::span<const float> input, const EncodeStates& states,
                        const EncodeContext& context, Bytes output) const = 0;

  /// Decodes `payload` into `output` (assigning or adding). The payload comes from the network: its size and
  /// every count or index in it are checked before the first write. Throws CorruptPayload, leaving `output`
  /// as it was. An empty payload for one element or more is a failed encode()'s: NaN everywhere.
  void decode(ConstBytes payload, std::span<float> output, DecodeMode mode,
              Parallel* parallel = nullptr) const;

 protected:
  /// decode() of a payload of at least one byte for at least one element.
  virtual void decodePayload(ConstBytes payload, std::span<float> output, DecodeMode mode,
                             Parallel* parallel) const = 0;
};

using CodecPointer = std::shared_ptr<const Codec>;

}  // namespace hipress
