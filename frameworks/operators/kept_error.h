// SPDX-License-Identifier: Apache-2.0
//
// The end of C++ before a caller in C: ctypes, MXNet's engine, a dispatcher. No exception may pass through
// it.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/casync/run/current_engine.h"

namespace hipress {

/// Calls `body`, and calls `report` with its error if it throws. Returns whether it did not.
template <typename Body, typename Report>
bool guarded(Body&& body, Report&& report) {
  try {
    std::forward<Body>(body)();
    return true;
  } catch (const Error& error) {
    report(error);
  } catch (const std::exception& error) {  // such as std::bad_alloc
    report(unsupported(std::string("this process cannot go on: ") + error.what()));
  }
  return false;
}

/// Calls `body` and keeps its error for raise_kept_error(). Returns whether there was no error.
template <typename Body>
bool kept(Body&& body) {
  return guarded(std::forward<Body>(body), [](const Error& error) { keepError(error); });
}

}  // namespace hipress
