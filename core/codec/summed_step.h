// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of a rank in one step of a sum of encoded values (summed_encoding.h). The engine and process
// groups use it. Memory for a message has one byte more than the message: it lies behind the levels and is
// summed with them. It counts the ranks that could not encode.
#pragma once

#include <span>

#include "core/codec/codec.h"

namespace hipress {

/// Writes the statistics of scale·input, which has one element at least. If scale·input is not finite,
/// neither is what ranks combine from the statistics.
void makeStatistics(const Codec& codec, std::span<const float> input, const EncodeStates& states,
                    const EncodeContext& context, Bytes statistics);

/// Writes message and failures from what ranks have `agreed` on; zeros for the levels if that, scale·input or
/// a new state is not finite. Throws InvalidArgument if a level is greater than the codec says, as the sum
/// could overflow.
void makeLevels(const Codec& codec, ConstBytes agreed, std::span<const float> input,
                const EncodeStates& states, const EncodeContext& context, Bytes message);

/// The message has the sum of all ranks' levels and failures now: writes the sum of their values times
/// `factor`, or NaN everywhere. Returns, on all ranks alike, whether all ranks could encode and the result is
/// finite, so that new states are to be kept.
bool finishSum(const Codec& codec, ConstBytes agreed, Bytes message, double factor, std::span<float> result,
               Parallel* parallel);

}  // namespace hipress
