// SPDX-License-Identifier: Apache-2.0
//
// The specification of a tensor as text, for a rank that has not declared it and takes part in its
// all-reduce.
#pragma once

#include <string>

#include "core/casync/graph/tensor_spec.h"

namespace hipress {

/// Of an all-reduce; without device, which each rank chooses for itself.
std::string textOfSpec(const TensorSpec& spec);
/// Throws CorruptPayload.
TensorSpec specOfText(const std::string& text);

}  // namespace hipress
