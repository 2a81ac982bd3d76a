// SPDX-License-Identifier: Apache-2.0
//
// The part that the codec operators of all frameworks share: they find a codec by the texts of an operator
// and encode with states that the framework owns. Each framework adds its tensors, shapes and errors. The
// wrappers that `hipress compll build` writes do this for one codec (compll/python/wrappers/).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/codec/codec.h"

namespace hipress {

/// The codec of a name and the text between its parentheses: ("tbq", "threshold=0.1"); "" selects the
/// defaults. Each pair is configured once and then kept, because an operator brings the same texts in every
/// step. Throws the InvalidArgument of createCodec().
CodecPointer operatorCodec(const std::string& name, const std::string& options);

/// The name of the operator's argument for a state: the name of the state, followed by `_state` if each
/// operator has another argument of that name.
std::string operatorArgument(std::string_view state);

/// A state as an operator passes it. operatorEncode() reads the values and overwrites them. Without values
/// the codec reads zeros and its new state is lost.
struct OperatorState {
  std::string_view name;
  std::span<float> values;
};

/// Throws InvalidArgument if a state has another size than the codec keeps for a gradient of `count`
/// elements, or if the caller passes values for a state that the configured codec does not keep.
void checkOperatorStates(const Codec& codec, size_t count, std::span<const OperatorState> states);

/// The values of a state by its name; empty if the caller passes none.
std::span<float> operatorStateValues(std::string_view name, std::span<const OperatorState> states);

/// An encoded message of `size` bytes.
struct OperatorMessage {
  std::unique_ptr<std::byte[]> bytes;
  size_t size = 0;
};

/// Encodes scale·input, times the codec's gradientFactor(), like Codec::encode(), but in place: new states
/// overwrite the old ones, unless the encode failed (a message of 0 bytes). Throws the InvalidArgument of
/// checkOperatorStates().
OperatorMessage operatorEncode(const Codec& codec, std::span<const float> input,
                               std::span<const OperatorState> states, const EncodeContext& context);

}  // namespace hipress
