// SPDX-License-Identifier: Apache-2.0
//
// Task graphs, for tests and for authors of topologies. And the partitions of a tensor, for code outside the
// engine: the planner, and averages over process groups.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "bindings/module/kind_names.h"
#include "bindings/module/module.h"
#include "core/base/error.h"
#include "core/casync/graph/collectives.h"
#include "core/casync/graph/partition.h"
#include "core/casync/graph/shares.h"
#include "core/casync/graph/task_graph.h"
#include "core/casync/graph/tensor.h"
#include "core/casync/graph/topology.h"
#include "core/codec/generated_codec.h"
#include "core/simulation/step_description.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

/// One rank's tasks; each task comes before its successors.
py::list listed(const TaskGraph& graph) {
  py::list tasks;
  for (const Task& task : graph.tasks()) {
    const bool moves = task.primitive != Primitive::kMerge;
    int messages = 0;  // messages that a merge decodes, or adds up if they are plain
    int plain = 0;
    for (const Operand& operand : task.from) {
      if (operand.kind != Operand::Kind::kMessage) continue;
      (graph.messages()[operand.index].plain ? plain : messages) += 1;
    }
    py::dict entry;
    entry["primitive"] = primitiveName(task.primitive);
    entry["partition"] = task.partition;
    entry["peer"] = task.peer;
    entry["hop"] = task.hop;
    entry["level"] = task.level;
    entry["plain"] = moves && graph.messages()[task.message].plain;
    entry["own"] = moves && graph.messages()[task.message].own;
    entry["merged_messages"] = messages;
    entry["merged_plain"] = plain;
    entry["successors"] = task.successors;
    tasks.append(std::move(entry));
  }
  return tasks;
}

}  // namespace

void bindGraphs(py::module_& module) {
  module.def(
      "build_topology",
      [](const std::string& name, int rank, int worldSize, int partitions, int firstRank,
         std::vector<int> hosts) {
        const TopologyContext context{rank,      worldSize,        static_cast<uint16_t>(partitions),
                                      firstRank, std::move(hosts), false};
        return listed(buildTopology(name, context));
      },
      py::arg("name"), py::arg("rank"), py::arg("world_size"), py::arg("partitions"),
      py::arg("first_rank") = 0, py::arg("hosts") = std::vector<int>{},
      "One rank's task graph, in an order in which each task comes before its successors.");

  module.def("check_topology", &checkTopologyName, py::arg("name"),
             "Raises InvalidArgument, with all names, for an unknown one.");

  module.def(
      "resolved_topology",
      [](const std::string& name, int worldSize) { return std::string(resolvedTopology(name, worldSize)); },
      py::arg("name"), py::arg("world_size"),
      "The topology that a name stands for: itself, unless it is \"auto\".");
  module.def("is_direct", &isDirect, py::arg("topology"), "Whether no message has a sum of some ranks.");

  module.def("number_of_name", &numberOfName, py::arg("name"),
             "The number of a tensor's name for random rounding.");
  module.def("first_aggregator", &firstAggregator, py::arg("name"), py::arg("world_size"),
             "The owner of a tensor's partition 0.");

  module.def(
      "encoders",
      [](const std::string& topology, int worldSize, int owner, std::vector<int> hosts) {
        const Encoders encoders = encodersOf(topology, {0, worldSize, 1, owner, std::move(hosts), false});
        return std::pair(encoders.workers, encoders.aggregator);
      },
      py::arg("topology"), py::arg("world_size"), py::arg("owner"), py::arg("hosts") = std::vector<int>{},
      "The ranks that encode gradients or partial sums of a partition, and the rank that encodes the result, "
      "or -1.");

  module.def(
      "build_collective",
      [](const std::string& name, int rank, int worldSize) {
        const TopologyContext context{rank, worldSize, 1, 0, {}, false};
        switch (collectiveFromName(name)) {
          case Collective::kBroadcast:
            return listed(buildBroadcast(context));
          case Collective::kAllgather:
            return listed(buildAllgather(context));
          case Collective::kAlltoall:
            return listed(buildAlltoall(context));
          case Collective::kReducescatter:
            return listed(buildReducescatter(context));
          case Collective::kAllreduce:
            break;
        }
        throw invalidArgument("build_topology() builds an allreduce");
      },
      py::arg("name"), py::arg("rank"), py::arg("world_size"),
      "One rank's task graph of another collective.");

  module.def("topology_names", &topologyNames);
}

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
      "The number of partitions of a tensor that does not set it.");
  module.attr("MOST_ENCODED") = kMostElements;
  module.def(
      "planned_partitions",
      [](const TensorSpec& spec, int worldSize, size_t partitionBytes) {
        std::vector<std::pair<size_t, bool>> planned;
        const Tensor tensor(spec, 1, {0, worldSize, partitionBytes, {}, 0});
        for (const TensorPartition& each : tensor.partitions())
          planned.emplace_back(each.range.count, each.raw);
        return planned;
      },
      py::arg("spec"), py::arg("world_size"), py::arg("partition_bytes") = defaults.partitionBytes,
      "(number of elements, whether it travels raw) of each partition of a tensor.");
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
      "(first element, number of elements) of each partition, as the engine cuts a tensor into at most this "
      "number.");
}

}  // namespace hipress::bindings
