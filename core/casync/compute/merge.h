// SPDX-License-Identifier: Apache-2.0
//
// The merge: contributions of several ranks become one sum, in the order that the graph gives.
#pragma once

#include "core/casync/compute/task_step.h"

namespace hipress {

/// Puts the merge on the step's stream; false if no rank had values. Throws CorruptPayload and PeerLost.
bool merge(const TaskStep& step);

}  // namespace hipress
