// SPDX-License-Identifier: Apache-2.0
//
// What `top -H`, `perf` and debuggers call our threads among a framework's.
#pragma once

#include <pthread.h>

#include <string>

namespace hipress {

/// Names the calling thread "hipress `role`"; the kernel keeps 15 characters of that.
inline void nameThisThread(const std::string& role) {
  constexpr size_t kKept = 15;
  ::pthread_setname_np(::pthread_self(), ("hipress " + role).substr(0, kKept).c_str());
}

}  // namespace hipress
