// SPDX-License-Identifier: Apache-2.0
#include "core/transport/ucx/trust/shared_segments.h"

#include <sys/shm.h>
#include <unistd.h>

namespace hipress {

void keepSegmentsPrivate() {
  constexpr auto kOthers = 077;
  shmid_ds segment{};
  // Linux numbers the segments of an IPC namespace; SHM_STAT asks by that number and tells the identifier.
  const int last = ::shmctl(0, SHM_INFO, &segment);
  for (int index = 0; index <= last; ++index) {
    const int identifier = ::shmctl(index, SHM_STAT, &segment);
    if (identifier < 0 || segment.shm_cpid != ::getpid() || (segment.shm_perm.mode & kOthers) == 0) continue;
    segment.shm_perm.mode &= static_cast<unsigned short>(~kOthers);
    ::shmctl(identifier, IPC_SET, &segment);
  }
}

}  // namespace hipress
