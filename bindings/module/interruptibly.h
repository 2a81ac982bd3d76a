// SPDX-License-Identifier: Apache-2.0
//
// Waits for other ranks; Ctrl-C ends the wait.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <future>
#include <thread>
#include <utility>

namespace hipress::bindings {

/// Runs `work` without the GIL and returns its result. Python's signal handlers run meanwhile. If one raises,
/// as for Ctrl-C, this function throws its exception at once. `work` then continues alone until its own
/// deadline, so it must own the objects that it uses.
template <typename Work>
auto interruptibly(Work work) {
  constexpr std::chrono::milliseconds kLookAtSignals{100};
  std::packaged_task<decltype(work())()> task(std::move(work));
  auto result = task.get_future();
  std::thread thread(std::move(task));
  for (;;) {
    {
      const pybind11::gil_scoped_release nogil;
      if (result.wait_for(kLookAtSignals) == std::future_status::ready) {
        thread.join();
        return result.get();
      }
    }
    if (PyErr_CheckSignals() != 0) {
      thread.detach();
      throw pybind11::error_already_set();
    }
  }
}

}  // namespace hipress::bindings
