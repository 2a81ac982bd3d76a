// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

#include "core/control/control_plane.h"

namespace hipress::bindings {

/// The time between two checks for Ctrl-C in a wait, which releases the GIL in between.
inline constexpr Milliseconds kSignalInterval{100};

/// Keeps a Python object alive until C++ releases it, on any thread.
inline std::shared_ptr<void> keep(pybind11::object object) {
  auto* held = new pybind11::object(std::move(object));
  return {held, [](void* pointer) {
            const pybind11::gil_scoped_acquire gil;
            delete static_cast<pybind11::object*>(pointer);
          }};
}

}  // namespace hipress::bindings
