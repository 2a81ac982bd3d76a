// SPDX-License-Identifier: Apache-2.0
//
// Changes between two versions of a tensor, for hipress.weights.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <span>
#include <vector>

#include "bindings/module/buffers.h"
#include "bindings/module/module.h"
#include "core/base/error.h"
#include "core/weights/changes.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

using ByteArray = py::array_t<uint8_t, py::array::c_style>;

std::span<std::byte> writableBytes(ByteArray& array) {
  if (!array.writeable()) throw invalidArgument("the array is read-only");
  return {reinterpret_cast<std::byte*>(array.mutable_data()), static_cast<size_t>(array.size())};
}

}  // namespace

void bindWeights(py::module_& module) {
  module.def(
      "encode_changes",
      [](ByteArray old, const py::object& now, size_t elementBytes,
         size_t limit) -> std::optional<py::bytes> {
        const BytesView view(now);
        const std::span<std::byte> older = writableBytes(old);
        std::optional<std::vector<std::byte>> changes;
        {
          const py::gil_scoped_release release;
          changes = encodeChanges(older, view.bytes(), elementBytes, limit);
        }
        if (!changes) return std::nullopt;
        return py::bytes(reinterpret_cast<const char*>(changes->data()), changes->size());
      },
      py::arg("old").noconvert(), py::arg("now"), py::arg("element_bytes"), py::arg("limit"),
      "The changes from `old` to `now`; None if they exceed `limit` bytes. `old` becomes a copy of `now`.");
  module.def(
      "check_changes",
      [](const py::object& changes, size_t tensorBytes, size_t elementBytes) {
        const BytesView view(changes);
        const py::gil_scoped_release release;
        checkChanges(view.bytes(), tensorBytes, elementBytes);
      },
      py::arg("changes"), py::arg("tensor_bytes"), py::arg("element_bytes"),
      "Raises CorruptPayload unless the changes fit a tensor of `tensor_bytes` bytes.");
  module.def(
      "apply_changes",
      [](ByteArray tensor, const py::object& changes, size_t elementBytes) {
        const BytesView view(changes);
        const std::span<std::byte> bytes = writableBytes(tensor);
        const py::gil_scoped_release release;
        applyChanges(bytes, view.bytes(), elementBytes);
      },
      py::arg("tensor").noconvert(), py::arg("changes"), py::arg("element_bytes"),
      "Writes the changed elements. check_changes() must have accepted them.");
}

}  // namespace hipress::bindings
