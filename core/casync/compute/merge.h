// SPDX-License-Identifier: Apache-2.0
//
// The merge: adds contributions of several ranks, in the order of the graph.
#pragma once

#include "core/casync/compute/task_step.h"

namespace hipress {

/// Puts the merge on the step's stream. Returns false if no rank had values. Throws CorruptPayload, PeerLost.
bool merge(const TaskStep& step);

}  // namespace hipress
