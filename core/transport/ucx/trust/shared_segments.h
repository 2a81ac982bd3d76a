// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hipress {

/// UCX lets the user's whole group read and write its System V shared memory. This function restricts the
/// segments that this process has made so far to the user.
void keepSegmentsPrivate();

}  // namespace hipress
