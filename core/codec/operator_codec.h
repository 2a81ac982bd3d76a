// SPDX-License-Identifier: Apache-2.0
//
// What the codec operators of all frameworks share: a codec found by the texts that an operator carries, and
// encoding with states that the framework owns. The frameworks add their tensors, shapes and errors; the
// wrappers that `hipress compll build` writes do so for one codec (compll/python/wrappers/).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/codec/codec.h"

namespace hipress {

/// A codec by its name and what stands between the parentheses after it: ("tbq", "threshold=0.1"); "" for the
/// defaults. Configured once for each pair and then kept: operators come with the same texts in every step.
/// Throws InvalidArgument as createCodec() does.
CodecPointer operatorCodec(const std::string& name, const std::string& options);

/// The name of the argument that carries a state: the state's, with `_state` where an operator has an
/// argument of that name anyhow.
std::string operatorArgument(std::string_view state);

/// One state as an operator has it: its values are read, and overwritten after encoding. No values: the
/// caller keeps none, so the codec reads zeros and what it wants to remember is lost.
struct OperatorState {
  std::string_view name;
  std::span<float> values;
};

/// A message of `size` bytes.
struct OperatorMessage {
  std::unique_ptr<std::byte[]> bytes;
  size_t size = 0;
};

/// Encodes scale·input; as Codec::encode(), but in place: new states overwrite the old ones, unless encoding
/// failed (a message of 0 bytes). Throws InvalidArgument if a state has another size than the input, or
/// values were passed for one that the configured codec does not keep.
OperatorMessage operatorEncode(const Codec& codec, std::span<const float> input,
                               std::span<const OperatorState> states, const EncodeContext& context);

}  // namespace hipress
