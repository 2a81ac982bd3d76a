// SPDX-License-Identifier: Apache-2.0
//
// Finds the core's kinds by their Python names.
#pragma once

#include <string>

#include "core/base/error.h"
#include "core/casync/graph/tensor.h"
#include "core/element/dtype.h"

namespace hipress::bindings {

/// Throws InvalidArgument for an unknown name.
inline DType dtypeFromName(const std::string& name) {
  for (int number = 0; number < kDTypeCount; ++number) {
    if (dtypeName(static_cast<DType>(number)) == name) return static_cast<DType>(number);
  }
  throw invalidArgument("dtype '" + name + "' does not exist");
}

/// Throws InvalidArgument for an unknown name.
Collective collectiveFromName(const std::string& name);

}  // namespace hipress::bindings
