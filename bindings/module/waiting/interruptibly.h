// SPDX-License-Identifier: Apache-2.0
//
// Waits for other ranks; Ctrl-C ends the wait.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <future>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>

#include "bindings/module/waiting/left_threads.h"
#include "core/base/error.h"

namespace hipress::bindings {

/// Runs `work` without the GIL and returns its result. Python's signal handlers run meanwhile. If one raises,
/// as for Ctrl-C, this function throws its exception at once; after `stop` it throws NotInitialized. `work`
/// then continues alone until its own deadline, so it must own the objects that it uses.
template <typename Work>
auto interruptibly(Work work, const std::stop_token& stop = {}) {
  using Result = decltype(work());
  constexpr std::chrono::milliseconds kLookAtSignals{100};
  std::packaged_task<Result()> task(std::move(work));
  const auto result = std::make_shared<std::future<Result>>(task.get_future());
  std::thread thread(std::move(task));
  const auto leave = [&] {
    leaveThread({std::move(thread), [result](std::chrono::milliseconds limit) {
                   return result->wait_for(limit) == std::future_status::ready;
                 }});
  };
  for (;;) {
    {
      const pybind11::gil_scoped_release nogil;
      if (result->wait_for(kLookAtSignals) == std::future_status::ready) {
        thread.join();
        return result->get();
      }
    }
    if (PyErr_CheckSignals() != 0) {
      leave();
      throw pybind11::error_already_set();
    }
    if (stop.stop_requested()) {
      leave();
      throw Error(ErrorKind::kNotInitialized, "the start of this rank was ended");
    }
  }
}

}  // namespace hipress::bindings
