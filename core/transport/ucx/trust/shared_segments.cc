// SPDX-License-Identifier: Apache-2.0
#include "core/transport/ucx/trust/shared_segments.h"

#include <sys/ipc.h>
#include <sys/shm.h>
#include <unistd.h>

namespace hipress {

void keepSegmentsPrivate() {
  constexpr unsigned kOfUcx = 0660;
  constexpr unsigned kPermissions = 0777;
  shmid_ds segment{};
  // Linux numbers the segments of an IPC namespace; SHM_STAT asks by that number and tells the identifier.
  const int last = ::shmctl(0, SHM_INFO, &segment);
  for (int index = 0; index <= last; ++index) {
    const int identifier = ::shmctl(index, SHM_STAT, &segment);
    const unsigned mode = segment.shm_perm.mode;
    const bool isOfUcx = identifier >= 0 && segment.shm_cpid == ::getpid() &&
                         segment.shm_perm.__key == IPC_PRIVATE && (mode & SHM_DEST) != 0 &&
                         (mode & kPermissions) == kOfUcx;
    if (!isOfUcx) continue;
    segment.shm_perm.mode = 0600;
    ::shmctl(identifier, IPC_SET, &segment);
  }
}

}  // namespace hipress
