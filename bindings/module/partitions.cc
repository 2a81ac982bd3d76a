// SPDX-License-Identifier: Apache-2.0
//
// How a tensor is cut, for what is not the engine: the planner, and averages over process groups. And what a
// rank computes for such an average.
#include "core/casync/graph/partition.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/module/buffers.h"
#include "bindings/module/module.h"
#include "core/casync/graph/shares.h"
#include "core/codec/slots/slot_plan.h"
#include "core/codec/slots/slot_states.h"
#include "core/simulation/step_description.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

using ByteMemory = py::array_t<uint8_t, py::array::c_style>;

Bytes bytesOf(ByteMemory& memory) {
  if (!memory.writeable()) throw invalidArgument("the memory is read-only");
  return {reinterpret_cast<std::byte*>(memory.mutable_data()), static_cast<size_t>(memory.size())};
}

/// NumPy has no bfloat16: an array of int16 stands for it.
DType slotDType(const py::array& array) {
  const char kind = array.dtype().kind();
  const auto size = array.itemsize();
  if (kind == 'i' && size == 2) return DType::kBFloat16;
  if (kind == 'f' && size == 2) return DType::kFloat16;
  if (kind == 'f' && size == 4) return DType::kFloat32;
  if (kind == 'f' && size == 8) return DType::kFloat64;
  throw invalidArgument("a tensor in slots is of float16, float32, float64, or int16 for bfloat16");
}

std::vector<SlotValues> valuesOf(std::vector<py::array>& arrays) {
  std::vector<SlotValues> values;
  for (py::array& array : arrays) {
    if ((array.flags() & py::array::c_style) == 0 ||
        (array.flags() & py::detail::npy_api::NPY_ARRAY_ALIGNED_) == 0 || !array.writeable())
      throw invalidArgument("a tensor in slots lies without gaps, aligned, and can be written");
    values.push_back(
        {static_cast<std::byte*>(array.mutable_data()), slotDType(array), static_cast<size_t>(array.size())});
  }
  return values;
}

py::dict readStates(const SlotStates& states) {
  py::dict values;
  for (size_t state = 0; state < states.names().size(); ++state) {
    const auto own = states.values(state);
    values[py::str(states.names()[state])] =
        py::array_t<float>(static_cast<py::ssize_t>(own.size()), own.data());
  }
  return values;
}

void bindStates(py::module_& module) {
  using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
  py::class_<SlotStateTable, std::shared_ptr<SlotStateTable>>(module, "SlotStateTable")
      .def(py::init())
      .def("read",
           [](SlotStateTable& table) {
             py::dict all;
             for (const std::string& key : table.keys()) all[py::str(key)] = readStates(*table.at(key));
             return all;
           })
      .def(
          "put",
          [](SlotStateTable& table, const std::string& key, const std::string& state, const Floats& values) {
            table.at(key)->put(state, {values.data(), static_cast<size_t>(values.size())});
          },
          py::arg("key"), py::arg("state"), py::arg("values"));
  py::class_<SlotChanges, std::shared_ptr<SlotChanges>>(module, "SlotChanges")
      .def(py::init())
      .def("undo", &SlotChanges::undo);
}

Slot makeSlot(const std::shared_ptr<Codec>& codec, const std::shared_ptr<Codec>& aggregateCodec) {
  Slot slot;
  slot.codec = codec;
  slot.aggregateCodec = aggregateCodec;
  return slot;
}

void bindSlots(py::module_& module) {
  py::class_<Slot>(module, "Slot")
      .def(py::init(&makeSlot), py::arg("codec"), py::arg("aggregate_codec"))
      .def_readwrite("name", &Slot::name)
      .def_readwrite("partition", &Slot::partition)
      .def_readwrite("tensor", &Slot::tensor)
      .def_readwrite("first", &Slot::first)
      .def_readwrite("count", &Slot::count)
      .def_readwrite("owner", &Slot::owner)
      .def_readwrite("offset", &Slot::offset)
      .def_readwrite("payload_bytes", &Slot::payloadBytes)
      .def_readwrite("raw", &Slot::raw)
      .def_readwrite("scaled", &Slot::scaled)
      .def_readwrite("number", &Slot::number)
      .def_readwrite("first_element", &Slot::firstElement)
      .def_readwrite("worker_key", &Slot::workerKey)
      .def_readwrite("aggregator_key", &Slot::aggregatorKey);
  py::class_<SlotPlan, std::shared_ptr<SlotPlan>>(module, "SlotPlan")
      .def(py::init<std::vector<Slot>, int, int, bool>(), py::arg("slots"), py::arg("rank"), py::arg("world"),
           py::arg("whole"))
      .def_property_readonly("outward_bytes", &SlotPlan::outwardBytes)
      .def_property_readonly("inward_bytes", &SlotPlan::inwardBytes)
      .def("block_bytes", &SlotPlan::blockBytes, py::arg("owner"))
      .def(
          "encode",
          [](const SlotPlan& plan, std::vector<py::array> tensors, SlotStateTable& states, uint64_t seed,
             uint64_t step, ByteMemory outward, SlotChanges& changed) {
            const auto values = valuesOf(tensors);
            const Bytes bytes = bytesOf(outward);
            const py::gil_scoped_release release;
            plan.encode(values, states, {seed, step}, bytes, changed);
          },
          py::arg("tensors"), py::arg("states"), py::arg("seed"), py::arg("step"),
          py::arg("outward").noconvert(), py::arg("changed"))
      .def(
          "average",
          [](const SlotPlan& plan, std::vector<py::array> tensors, SlotStateTable& states, uint64_t seed,
             uint64_t step, float factor, ByteMemory inward, SlotChanges& changed) {
            const auto values = valuesOf(tensors);
            const Bytes bytes = bytesOf(inward);
            const py::gil_scoped_release release;
            plan.average(values, states, {seed, step}, factor, bytes, changed);
          },
          py::arg("tensors"), py::arg("states"), py::arg("seed"), py::arg("step"), py::arg("factor"),
          py::arg("inward").noconvert(), py::arg("changed"))
      .def(
          "decode",
          [](const SlotPlan& plan, std::vector<py::array> tensors, ByteMemory outward) {
            const auto values = valuesOf(tensors);
            const Bytes bytes = bytesOf(outward);
            const py::gil_scoped_release release;
            plan.decode(values, bytes);
          },
          py::arg("tensors"), py::arg("outward").noconvert())
      .def(
          "average_whole",
          [](const SlotPlan& plan, std::vector<py::array> tensors, float factor, ByteMemory outward,
             ByteMemory inward) {
            const auto values = valuesOf(tensors);
            const Bytes sent = bytesOf(outward);
            const Bytes received = bytesOf(inward);
            const py::gil_scoped_release release;
            plan.averageWhole(values, factor, sent, received);
          },
          py::arg("tensors"), py::arg("factor"), py::arg("outward").noconvert(),
          py::arg("inward").noconvert());
}

}  // namespace

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
  bindStates(module);
  bindSlots(module);
}

}  // namespace hipress::bindings
