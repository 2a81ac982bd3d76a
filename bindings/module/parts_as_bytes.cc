// SPDX-License-Identifier: Apache-2.0
//
// Parts of tensors as bytes: changes between two versions of weights, for hipress.weights; which elements of
// tiles are sent, and 2 bits of each, for hipress.torch.tiles.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bindings/module/buffers.h"
#include "bindings/module/module.h"
#include "core/base/error.h"
#include "core/tiles/kept_values.h"
#include "core/weights/changes.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

using ByteArray = py::array_t<uint8_t, py::array::c_style>;

std::span<std::byte> writableBytes(ByteArray& array) {
  if (!array.writeable()) throw invalidArgument("the array is read-only");
  return {reinterpret_cast<std::byte*>(array.mutable_data()), static_cast<size_t>(array.size())};
}

using Numbers = std::vector<std::array<uint32_t, 5>>;
using Indices = py::array_t<uint16_t, py::array::c_style>;
using Bins = py::array_t<uint8_t, py::array::c_style>;

std::vector<TileGrid> gridsOf(const Numbers& numbers) {
  std::vector<TileGrid> grids;
  for (const auto& [tiles, across, height, width, kept] : numbers)
    grids.push_back({tiles, across, height, width, kept});
  return grids;
}

void bindChanges(py::module_& module) {
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

void bindTiles(py::module_& module) {
  module.def(
      "encode_kept",
      [](const Numbers& numbers, const Indices& indices, const Bins& bins) {
        const std::vector<TileGrid> grids = gridsOf(numbers);
        const std::span<const uint16_t> places(indices.data(), static_cast<size_t>(indices.size()));
        const std::span<const uint8_t> values(bins.data(), static_cast<size_t>(bins.size()));
        std::vector<std::byte> bytes;
        {
          const py::gil_scoped_release release;
          bytes = encodeKept(grids, places, values);
        }
        return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      },
      py::arg("grids"), py::arg("indices").noconvert(), py::arg("bins").noconvert(),
      "Of each grid: tiles, tiles beside each other, height and width of a tile, elements of it that are "
      "sent.");
  module.def(
      "decode_kept",
      [](const Numbers& numbers, const py::object& bytes) {
        const std::vector<TileGrid> grids = gridsOf(numbers);
        const BytesView view(bytes);
        size_t indices = 0;
        size_t bins = 0;
        for (const TileGrid& grid : grids) {
          indices += grid.indices();
          bins += grid.values();
        }
        Indices places(static_cast<py::ssize_t>(indices));
        Bins values(static_cast<py::ssize_t>(bins));
        const std::span<uint16_t> placesOut(places.mutable_data(), indices);
        const std::span<uint8_t> valuesOut(values.mutable_data(), bins);
        {
          const py::gil_scoped_release release;
          decodeKept(grids, view.bytes(), placesOut, valuesOut);
        }
        return py::make_tuple(places, values);
      },
      py::arg("grids"), py::arg("bytes"), "Indices and bins of encode_kept(). Raises CorruptPayload.");
}

}  // namespace

void bindPartsAsBytes(py::module_& module) {
  bindChanges(module);
  bindTiles(module);
}

}  // namespace hipress::bindings
