// SPDX-License-Identifier: Apache-2.0
// A line that delivers late: two TAP devices in two networks; what leaves one of them enters the other after
// a delay. Kernels without netem have no other way.
//
//     delay_line MICROSECONDS NETWORK DEVICE NETWORK DEVICE     a network: a file such as /proc/PID/ns/net
//
// It writes "ready" when the devices exist, and runs until it is killed; the devices end with it. Frames stay
// as large as the sender's kernel hands them over (segmentation offload), so 64 KiB cost as much as one
// packet.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

// A frame of 64 KiB with its headers.
enum { kLongest = 70 << 10 };
// More than that under way is lost, as in a switch: 64 MiB are five seconds of 100 Mbit/s.
static const size_t kCapacity = 64u << 20;

struct Frame {
  struct Frame* next;
  uint64_t due;
  size_t length;
  char bytes[];
};

// One direction.
struct Way {
  int from, to;
  struct Frame *first, *last;
  size_t held;
  int is_blocked;
};

static void fail(const char* what) {
  fprintf(stderr, "delay_line: %s: %s\n", what, strerror(errno));
  exit(1);
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int tap(const char* network, const char* name) {
  int home = open(network, O_RDONLY | O_CLOEXEC);
  if (home < 0 || setns(home, CLONE_NEWNET) != 0) fail(network);
  close(home);
  int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (device < 0) fail("/dev/net/tun");
  struct ifreq request;
  memset(&request, 0, sizeof request);
  strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if (ioctl(device, TUNSETIFF, &request) != 0) fail("TUNSETIFF");
  if (ioctl(device, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) != 0) fail("TUNSETOFFLOAD");
  return device;
}

static void take(struct Way* way, uint64_t delay) {
  static char buffer[kLongest];
  for (int count = 0; count < 64; ++count) {
    ssize_t length = read(way->from, buffer, sizeof buffer);
    if (length <= 0) {
      // EIO: the device is down; it may come up again.
      if (length < 0 && errno != EAGAIN && errno != EINTR && errno != EIO) fail("read");
      return;
    }
    if (way->held + (size_t)length > kCapacity) continue;
    struct Frame* frame = malloc(sizeof *frame + (size_t)length);
    if (frame == NULL) fail("malloc");
    frame->next = NULL;
    frame->due = now() + delay;
    frame->length = (size_t)length;
    memcpy(frame->bytes, buffer, frame->length);
    if (way->first == NULL) {
      way->first = frame;
    } else {
      way->last->next = frame;
    }
    way->last = frame;
    way->held += frame->length;
  }
}

static void deliver(struct Way* way) {
  way->is_blocked = 0;
  while (way->first != NULL && way->first->due <= now()) {
    struct Frame* frame = way->first;
    if (write(way->to, frame->bytes, frame->length) < 0) {
      way->is_blocked = errno == EAGAIN;
      if (way->is_blocked) return;
      // EIO: the device is down; EINVAL: a frame that this kernel's device does not take. Both are lost.
      if (errno != EINTR && errno != EIO && errno != EINVAL) fail("write");
    }
    way->first = frame->next;
    way->held -= frame->length;
    free(frame);
  }
}

int main(int count, char** words) {
  if (count != 6) {
    fprintf(stderr, "usage: delay_line MICROSECONDS NETWORK DEVICE NETWORK DEVICE\n");
    return 2;
  }
  uint64_t delay = strtoull(words[1], NULL, 10) * 1000u;
  int one = tap(words[2], words[3]), other = tap(words[4], words[5]);
  // It stands for a cable, which is not late because the nodes' processors are busy.
  setpriority(PRIO_PROCESS, 0, -10);
  prctl(PR_SET_TIMERSLACK, 1);
  puts("ready");
  fflush(stdout);
  struct Way ways[2] = {{.from = one, .to = other}, {.from = other, .to = one}};
  for (;;) {
    struct pollfd polled[2] = {{one, POLLIN, 0}, {other, POLLIN, 0}};
    uint64_t due = UINT64_MAX;
    for (int each = 0; each < 2; ++each) {
      if (ways[each].is_blocked) {
        polled[1 - each].events |= POLLOUT;
      } else if (ways[each].first != NULL && ways[each].first->due < due) {
        due = ways[each].first->due;
      }
    }
    uint64_t time = now(), left = due > time ? due - time : 0;
    struct timespec wait = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    if (ppoll(polled, 2, due == UINT64_MAX ? NULL : &wait, NULL) < 0 && errno != EINTR) fail("ppoll");
    for (int each = 0; each < 2; ++each) {
      take(&ways[each], delay);
      deliver(&ways[each]);
    }
  }
}
