// SPDX-License-Identifier: Apache-2.0
#include "core/authentication/nonce.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.h"

namespace hipress {

std::string freshNonce() {
  std::string nonce(kNonceBytes, '\0');
  // getrandom() gives up to 256 bytes in full or fails.
  ssize_t bytes = -1;
  do {
    bytes = ::getrandom(nonce.data(), nonce.size(), 0);
  } while (bytes < 0 && errno == EINTR);
  if (bytes != static_cast<ssize_t>(nonce.size())) {
    throw transportError(std::string("the kernel gives no random bytes (getrandom: ") + std::strerror(errno) +
                         "); allow the system call getrandom in this container");
  }
  return nonce;
}

}  // namespace hipress
