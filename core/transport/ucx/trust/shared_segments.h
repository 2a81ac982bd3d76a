// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hipress {

/// UCX lets the user's whole group read and write its System V shared memory. This function restricts the
/// segments that UCX has made so far to the user. Segments that other libraries of this process have made
/// keep their permissions: UCX's have no key, are open to user and group, and are gone when no process uses
/// them.
void keepSegmentsPrivate();

}  // namespace hipress
