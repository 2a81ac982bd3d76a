// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hipress {

/// UCX lets the whole group of a user read and write its System V shared memory. From now on only the user
/// may attach the segments that this process has made so far.
void keepSegmentsPrivate();

}  // namespace hipress
