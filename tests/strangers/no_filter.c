/* SPDX-License-Identifier: Apache-2.0
 *
 * For LD_PRELOAD: a kernel that lets no process attach a filter to a socket, as some sandboxes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>

int setsockopt(int fd, int level, int option, const void* value, socklen_t size) {
  static int (*real)(int, int, int, const void*, socklen_t);
  if (level == SOL_SOCKET && option == SO_ATTACH_FILTER) {
    errno = EPERM;
    return -1;
  }
  if (!real) real = (int (*)(int, int, int, const void*, socklen_t))dlsym(RTLD_NEXT, "setsockopt");
  return real(fd, level, option, value, size);
}
