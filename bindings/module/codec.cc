// SPDX-License-Identifier: Apache-2.0
#include "bindings/module/module.h"

namespace hipress::bindings {
void bindCodec(pybind11::module_&) {}
}  // namespace hipress::bindings
