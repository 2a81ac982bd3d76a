// SPDX-License-Identifier: Apache-2.0
#include "core/transport/ucx/shared_memory.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>

#include "bindings/module/module.h"
#include "core/base/error.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

const char* nameOfKind(SharedMemoryKind kind) {
  switch (kind) {
    case SharedMemoryKind::kNone:
      return "none";
    case SharedMemoryKind::kPosix:
      return "posix";
    case SharedMemoryKind::kSystemV:
      return "system_v";
    case SharedMemoryKind::kTightPosix:
      return "tight_posix";
    case SharedMemoryKind::kTiniestPosix:
      return "tiniest_posix";
    case SharedMemoryKind::kUsersChoice:
      return "users_choice";
  }
  return "unknown";
}

py::dict sharedMemory(size_t ranks, const std::optional<uint64_t>& free, const std::optional<bool>& systemV) {
  SharedMemoryRoom room = sharedMemoryRoom();
  room.free = free.value_or(room.free);
  room.systemV = systemV.value_or(room.systemV);
  py::dict result;
  result["folder"] = room.folder;
  result["size"] = room.size;
  result["free"] = room.free;
  result["needed"] = sharedMemoryNeeded(ranks);
  try {
    result["kind"] = nameOfKind(sharedMemoryFor(ranks, room, std::to_string(ranks) + " ranks"));
  } catch (const Error& error) {
    result["problem"] = error.what();
  }
  return result;
}

}  // namespace

void bindSharedMemory(py::module_& module) {
  module.def(
      "shared_memory", &sharedMemory, py::arg("ranks"), py::arg("free") = py::none(),
      py::arg("system_v") = py::none(),
      "The shared memory of this host, and the kind that so many ranks would take, or the problem. `free` "
      "and `system_v` replace what the host has.");
}

}  // namespace hipress::bindings
