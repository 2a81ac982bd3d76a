// SPDX-License-Identifier: Apache-2.0
//
// Settings that only make sense if all ranks have the same.
#pragma once

#include "core/casync/engine.h"

namespace hipress {

/// All ranks call it together. Throws Mismatch, naming two ranks and what each has, and what
/// ControlPlane::allgather() throws.
void compareSettings(ControlPlane& control, const EngineOptions& options);

}  // namespace hipress
