// SPDX-License-Identifier: Apache-2.0
//
// A rank closes UCX's ports and restricts UCX's shared memory, while other parts of its process listen on
// ports and share memory with other users. The program prints failed expectations.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/transport/ucx/shared_memory.h"
#include "core/transport/ucx/trust/data_port.h"
#include "core/transport/ucx/trust/shared_segments.h"
#include "core/transport/ucx/ucx_context.h"

namespace {

using namespace hipress;

int failures = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::printf("%s\n", what.c_str());
  ++failures;
}

/// A port as another library opens one: on an address of this host, or on all.
int listenOn(const char* address) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  ::inet_pton(AF_INET, address, &name.sin_addr);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof name) != 0 || ::listen(fd, 8) != 0) std::abort();
  return fd;
}

/// Whether a process of this host can connect to the socket.
bool answers(int listener) {
  sockaddr_in name{};
  socklen_t size = sizeof name;
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&name), &size);
  if (name.sin_addr.s_addr == 0) ::inet_pton(AF_INET, "127.0.0.1", &name.sin_addr);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  ::connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof name);
  pollfd entry{fd, POLLOUT, 0};
  const bool connected = ::poll(&entry, 1, 300) == 1 && (entry.revents & POLLERR) == 0;
  ::close(fd);
  return connected;
}

void testPorts(const std::string& device) {
  const std::vector<int> before = listeningSockets();
  const UcxWorker worker(device, Milliseconds(1000), SharedMemoryKind::kNone);
  std::vector<int> ofUcx = listeningSockets();
  std::erase_if(ofUcx, [&](int fd) { return std::ranges::find(before, fd) != before.end(); });
  expect(!ofUcx.empty(), device + ": UCX listens");
  const std::vector<int> others{listenOn("127.0.0.1"), listenOn("0.0.0.0")};
  DataPort port(before, worker.address());
  port.close({});
  for (const int fd : ofUcx) expect(!answers(fd), device + ": a port of UCX is closed");
  for (const int fd : others) {
    expect(answers(fd), device + ": a port that is not UCX's stays open");
    ::close(fd);
  }
}

int segment(int mode, bool goes) {
  const int identifier = ::shmget(IPC_PRIVATE, 4096, IPC_CREAT | IPC_EXCL | mode);
  if (identifier < 0 || ::shmat(identifier, nullptr, 0) == reinterpret_cast<void*>(-1)) std::abort();
  if (goes) ::shmctl(identifier, IPC_RMID, nullptr);
  return identifier;
}

int modeOf(int identifier) {
  shmid_ds found{};
  ::shmctl(identifier, IPC_STAT, &found);
  return found.shm_perm.mode & 0777;
}

/// The permissions of the segments that this process has made.
std::vector<int> modes() {
  std::vector<int> all;
  shmid_ds found{};
  const int last = ::shmctl(0, SHM_INFO, &found);
  for (int index = 0; index <= last; ++index) {
    if (::shmctl(index, SHM_STAT, &found) >= 0 && found.shm_cpid == ::getpid())
      all.push_back(found.shm_perm.mode & 0777);
  }
  return all;
}

void testSegments() {
  const UcxWorker worker("lo", Milliseconds(1000), SharedMemoryKind::kSystemV);
  expect(std::ranges::count(modes(), 0660) > 0, "UCX opens its segments to the group");
  const int shared = segment(0660, false);
  const int readable = segment(0644, true);
  keepSegmentsPrivate();
  expect(std::ranges::count(modes(), 0660) == 1, "UCX's segments are the user's only");
  expect(modeOf(shared) == 0660 && modeOf(readable) == 0644, "other segments keep their permissions");
  ::shmctl(shared, IPC_RMID, nullptr);
}

}  // namespace

int main(int, char** arguments) {
  testPorts("lo");
  if (arguments[1] != nullptr) testPorts(arguments[1]);
  testSegments();
  return failures == 0 ? 0 : 1;
}
