// SPDX-License-Identifier: Apache-2.0
#include "core/transport/neighbour/host_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>

namespace hipress {

std::string hostIdentity() {
  std::string bootId;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> bootId;

  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);

  struct stat status{};
  const auto identity = [&status](const char* path) {
    return ::stat(path, &status) == 0 ? std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino)
                                      : "none";
  };
  return bootId + "/" + host.data() + "/ipc " + identity("/proc/self/ns/ipc") + "/shm " +
         identity("/dev/shm");
}

}  // namespace hipress
