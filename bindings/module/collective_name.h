// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/casync/graph/tensor.h"

namespace hipress::bindings {

/// Throws InvalidArgument.
Collective collectiveFromName(const std::string& name);

}  // namespace hipress::bindings
