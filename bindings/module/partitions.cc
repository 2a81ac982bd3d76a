// SPDX-License-Identifier: Apache-2.0
//
// How a tensor is cut, for what is not the engine: the planner, and averages over process groups.
#include "core/casync/graph/partition.h"

#include <pybind11/stl.h>

#include <utility>
#include <vector>

#include "bindings/module/module.h"
#include "core/casync/graph/shares.h"
#include "core/simulation/step_description.h"

namespace py = pybind11;

namespace hipress::bindings {

void bindPartitions(py::module_& module) {
  const EngineSettings defaults;
  module.def(
      "default_partitions",
      [](uint64_t elements, int elementBytes, int worldSize, size_t partitionBytes) {
        const auto count = static_cast<size_t>(elements);
        const size_t bytes = count * static_cast<size_t>(elementBytes);
        return splitElements(count, defaultPartitions(bytes, partitionBytes, worldSize)).size();
      },
      py::arg("elements"), py::arg("element_bytes"), py::arg("world_size"),
      py::arg("partition_bytes") = defaults.partitionBytes,
      "Into how many partitions the engine cuts a tensor that does not say it itself.");
  module.def(
      "split_elements",
      [](uint64_t elements, size_t partitions) {
        std::vector<std::pair<size_t, size_t>> ranges;
        for (const Partition& each : splitElements(static_cast<size_t>(elements), partitions)) {
          ranges.emplace_back(each.first, each.count);
        }
        return ranges;
      },
      py::arg("elements"), py::arg("partitions"),
      "The partitions' first elements and numbers of elements, as the engine cuts a tensor into at most so "
      "many.");
}

}  // namespace hipress::bindings
