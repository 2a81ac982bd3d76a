// SPDX-License-Identifier: Apache-2.0
//
// A failed CHECK prints its place, its text and its values, and aborts; a sanitizer or debugger then shows
// the stack.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <sstream>
#include <string>

namespace hipress::stress {

template <typename... Values>
[[noreturn]] void checkFailed(const char* file, int line, const char* condition, const Values&... values) {
  std::ostringstream text;
  ((text << ' ' << values), ...);
  std::fprintf(stderr, "%s:%d: CHECK(%s) failed:%s\n", file, line, condition, text.str().c_str());
  std::abort();
}

}  // namespace hipress::stress

#define CHECK(condition, ...)                                                                    \
  do {                                                                                           \
    if (!(condition)) {                                                                          \
      ::hipress::stress::checkFailed(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__); \
    }                                                                                            \
  } while (false)

namespace hipress::stress {

/// For queues whose work has no reason to throw.
inline void mustNotThrow(const std::exception& error) {
  CHECK(false, error.what());
}

}  // namespace hipress::stress
