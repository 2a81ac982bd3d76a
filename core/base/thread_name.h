// SPDX-License-Identifier: Apache-2.0
//
// The names of our threads in `top -H`, `perf` and debuggers, among the threads of a framework.
#pragma once

#include <pthread.h>

#include <string>

namespace hipress {

/// Names the calling thread "hipress `role`". The kernel keeps the first 15 characters.
inline void nameThisThread(const std::string& role) {
  constexpr size_t kKept = 15;
  ::pthread_setname_np(::pthread_self(), ("hipress " + role).substr(0, kKept).c_str());
}

}  // namespace hipress
