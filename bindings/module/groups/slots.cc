// SPDX-License-Identifier: Apache-2.0
//
// The computation of a rank in an average over a process group. Python gives addresses of the device: a
// tensor as (address, dtype, elements), memory as (address, bytes).
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/module/kind_names.h"
#include "bindings/module/module.h"
#include "bindings/module/seconds.h"
#include "core/base/error.h"
#include "core/slots/slot_executor.h"
#include "core/slots/slot_queue.h"
#include "core/slots/summed_tensor.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

using TensorPlace = std::tuple<uintptr_t, std::string, size_t>;
using MemoryPlace = std::pair<uintptr_t, size_t>;

std::vector<SlotValues> valuesAt(const std::vector<TensorPlace>& places) {
  std::vector<SlotValues> values;
  for (const auto& [address, dtype, count] : places)
    values.push_back({reinterpret_cast<std::byte*>(address), dtypeFromName(dtype), count});
  return values;
}

/// The tensors of a batch, for all runs.
struct SlotTensors {
  std::vector<SlotValues> list;
};

Bytes bytesAt(const MemoryPlace& place) {
  return {reinterpret_cast<std::byte*>(place.first), place.second};
}

SlotValues valueAt(const TensorPlace& place) {
  return valuesAt({place}).front();
}

std::span<float> floatsAt(const MemoryPlace& place) {
  return {reinterpret_cast<float*>(place.first), place.second / sizeof(float)};
}

py::dict readStates(const SlotStates& states) {
  py::dict values;
  for (size_t state = 0; state < states.states().size(); ++state) {
    const std::vector<float> own = states.values(state);
    values[py::str(states.states()[state].name)] =
        py::array_t<float>(static_cast<py::ssize_t>(own.size()), own.data());
  }
  return values;
}

void bindStates(py::module_& module) {
  using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
  py::class_<SlotStateTable, std::shared_ptr<SlotStateTable>>(module, "SlotStateTable")
      .def(py::init([](Device& device) { return std::make_shared<SlotStateTable>(device.memory()); }),
           py::arg("device"))
      .def("read",
           [](SlotStateTable& table) {
             py::dict all;
             for (const std::string& key : table.keys()) all[py::str(key)] = readStates(*table.at(key));
             return all;
           })
      .def(
          "put",
          [](SlotStateTable& table, const std::string& key, const std::string& state, const Floats& values,
             size_t block, std::optional<size_t> count) {
            const auto size = static_cast<size_t>(values.size());
            table.at(key)->put({state, block}, count.value_or(size), {values.data(), size});
          },
          py::arg("key"), py::arg("state"), py::arg("values"), py::arg("block") = 1,
          py::arg("count") = py::none(),
          "Sets a state of a partition of `count` elements, of which `block` share a value.");
}

Slot makeSlot(const std::shared_ptr<Codec>& codec, const std::shared_ptr<Codec>& aggregateCodec) {
  Slot slot;
  slot.codec = codec;
  slot.aggregateCodec = aggregateCodec;
  return slot;
}

void bindSlot(py::module_& module) {
  py::class_<Slot>(module, "Slot")
      .def(py::init(&makeSlot), py::arg("codec"), py::arg("aggregate_codec"))
      .def_readwrite("name", &Slot::name)
      .def_readwrite("partition", &Slot::partition)
      .def_readwrite("tensor", &Slot::tensor)
      .def_readwrite("first", &Slot::first)
      .def_readwrite("count", &Slot::count)
      .def_readwrite("owner", &Slot::owner)
      .def_readwrite("payload_bytes", &Slot::payloadBytes)
      .def_property(
          "dtype", [](const Slot& slot) { return std::string(dtypeName(slot.dtype)); },
          [](Slot& slot, const std::string& name) { slot.dtype = dtypeFromName(name); })
      .def_readwrite("raw", &Slot::raw)
      .def_readwrite("scaled", &Slot::scaled)
      .def_readwrite("counted", &Slot::counted)
      .def_readwrite("number", &Slot::number)
      .def_readwrite("first_element", &Slot::firstElement)
      .def_readwrite("worker_key", &Slot::workerKey)
      .def_readwrite("aggregator_key", &Slot::aggregatorKey);
}

void bindSlotChanges(py::module_& module) {
  py::class_<SlotChanges, std::shared_ptr<SlotChanges>>(module, "SlotChanges")
      .def(py::init<std::shared_ptr<Device>, bool>(), py::arg("device"), py::arg("keeps_states") = true)
      .def_property_readonly("keeps_states", &SlotChanges::keepsStates)
      .def_property("nan_if_refused", &SlotChanges::nanIfRefused, &SlotChanges::setNanIfRefused)
      .def("discard", &SlotChanges::discard)
      .def(
          "look",
          [](const SlotChanges& changes, SlotQueue& queue, const TensorPlace& average) {
            const py::gil_scoped_release release;  // kernels may have to be compiled
            changes.look(queue.stream(), valueAt(average));
          },
          py::arg("queue"), py::arg("average"))
      .def(
          "write_verdict",
          [](const SlotChanges& changes, SlotQueue& queue, uintptr_t to) {
            const py::gil_scoped_release release;
            changes.writeVerdict(queue.stream(), reinterpret_cast<std::byte*>(to));
          },
          py::arg("queue"), py::arg("to"))
      .def(
          "settle",
          [](SlotChanges& changes, SlotQueue& queue) {
            const py::gil_scoped_release release;
            return changes.settle(queue.stream());
          },
          py::arg("queue"));
}

void bindSummedTensor(py::module_& module) {
  py::class_<SummedTensor, std::shared_ptr<SummedTensor>>(module, "SummedTensor")
      .def(py::init([](const std::string& name, const std::shared_ptr<Codec>& codec, size_t count,
                       uint32_t number, std::shared_ptr<Device> device) {
             const py::gil_scoped_release release;
             return std::make_shared<SummedTensor>(name, codec, count, number, std::move(device));
           }),
           py::arg("name"), py::arg("codec"), py::arg("count"), py::arg("number"), py::arg("device"))
      .def(
          "make_statistics",
          [](SummedTensor& tensor, SlotQueue& queue, const TensorPlace& values, SlotStateTable& states,
             const std::string& key, uint64_t seed, uint64_t step, const MemoryPlace& statistics,
             uintptr_t gradient) {
            const py::gil_scoped_release release;
            tensor.makeStatistics(queue.stream(), valueAt(values), states, key, {seed, step},
                                  floatsAt(statistics), reinterpret_cast<float*>(gradient));
          },
          py::arg("queue"), py::arg("values"), py::arg("states"), py::arg("key"), py::arg("seed"),
          py::arg("step"), py::arg("statistics"), py::arg("gradient"))
      .def(
          "make_levels",
          [](SummedTensor& tensor, SlotQueue& queue, const MemoryPlace& agreed, const MemoryPlace& levels) {
            const py::gil_scoped_release release;
            tensor.makeLevels(queue.stream(), floatsAt(agreed), bytesAt(levels));
          },
          py::arg("queue"), py::arg("agreed"), py::arg("levels"))
      .def(
          "finish",
          [](SummedTensor& tensor, SlotQueue& queue, const TensorPlace& values, double factor,
             const MemoryPlace& agreed, uintptr_t gradient, const MemoryPlace& levels, SlotChanges& changed) {
            const py::gil_scoped_release release;
            tensor.finish(queue.stream(), valueAt(values), factor, floatsAt(agreed),
                          reinterpret_cast<const float*>(gradient), bytesAt(levels), changed);
          },
          py::arg("queue"), py::arg("values"), py::arg("factor"), py::arg("agreed"), py::arg("gradient"),
          py::arg("levels"), py::arg("changed"))
      .def("raise_error", &SummedTensor::raise);
}

void bindProgram(py::module_& module) {
  py::class_<SlotHop>(module, "SlotHop")
      .def_readonly("send_at", &SlotHop::sendAt)
      .def_readonly("receive_at", &SlotHop::receiveAt)
      .def_readonly("sent", &SlotHop::sent)
      .def_readonly("received", &SlotHop::received)
      .def_readonly("counted", &SlotHop::counted);
  py::class_<SlotProgram, std::shared_ptr<SlotProgram>>(module, "SlotProgram")
      .def(py::init([](std::vector<Slot> slots, int rank, int world, std::string topology,
                       std::vector<int> hosts) {
             const py::gil_scoped_release release;
             return std::make_shared<SlotProgram>(
                 std::move(slots), SlotRanks{std::move(topology), rank, world, std::move(hosts)});
           }),
           py::arg("slots"), py::arg("rank"), py::arg("world"), py::arg("topology") = "auto",
           py::arg("hosts") = std::vector<int>{})
      .def_property_readonly("is_all_to_all", &SlotProgram::isAllToAll)
      .def_property_readonly("hops", &SlotProgram::hops)
      .def_property_readonly("arena_bytes", &SlotProgram::arenaBytes)
      .def("__str__", &SlotProgram::text);
  py::class_<SlotTensors>(module, "SlotTensors")
      .def(py::init([](const std::vector<TensorPlace>& places) { return SlotTensors{valuesAt(places)}; }),
           py::arg("places"));
  py::class_<SlotExecutor, std::shared_ptr<SlotExecutor>>(module, "SlotExecutor")
      // Kernels may have to be compiled, which calls Python on this thread.
      .def(py::init([](std::shared_ptr<SlotProgram> program, std::shared_ptr<Device> device) {
             const py::gil_scoped_release release;
             return std::make_shared<SlotExecutor>(std::move(program), std::move(device));
           }),
           py::arg("program"), py::arg("device"))
      .def(
          "prepare",
          [](const SlotExecutor& executor, SlotQueue& queue, const MemoryPlace& arena) {
            const py::gil_scoped_release release;
            executor.prepare(queue.stream(), bytesAt(arena));
          },
          py::arg("queue"), py::arg("arena"))
      .def(
          "run",
          [](const SlotExecutor& executor, size_t number, SlotQueue& queue, const SlotTensors& tensors,
             SlotStateTable& states, uint64_t seed, uint64_t step, double factor, const MemoryPlace& arena,
             SlotChanges& changed) {
            const py::gil_scoped_release release;
            executor.run(number, queue,
                         {tensors.list, states, {seed, step}, factor, bytesAt(arena), changed});
          },
          py::arg("number"), py::arg("queue"), py::arg("tensors"), py::arg("states"), py::arg("seed"),
          py::arg("step"), py::arg("factor"), py::arg("arena"), py::arg("changed"))
      .def(
          "check",
          [](const SlotExecutor& executor, SlotQueue& queue, const SlotChanges& changed) {
            const py::gil_scoped_release release;
            executor.check(queue.stream(), changed);
          },
          py::arg("queue"), py::arg("changed"))
      .def("raise_error", &SlotExecutor::raise);
}

}  // namespace

void bindSlots(py::module_& module) {
  bindStates(module);
  bindSlot(module);
  py::class_<SlotQueue, std::shared_ptr<SlotQueue>>(module, "SlotQueue")
      .def(py::init([](std::shared_ptr<Device> device, uintptr_t stream) {
             return std::make_shared<SlotQueue>(std::move(device), reinterpret_cast<void*>(stream));
           }),
           py::arg("device"), py::arg("stream") = 0)
      .def(
          "rescale",
          [](SlotQueue& queue, const std::vector<std::shared_ptr<SlotStateTable>>& tables, uintptr_t now,
             uintptr_t before) {
            DeviceStream& stream = queue.stream();
            const auto* const scale = reinterpret_cast<const float*>(now);
            auto* const unit = reinterpret_cast<float*>(before);
            for (const auto& table : tables) stream.rescale(table->places(), scale, unit);
            stream.copy(reinterpret_cast<std::byte*>(unit), std::as_bytes(std::span(scale, 1)));
          },
          py::arg("tables"), py::arg("now"), py::arg("before"), py::call_guard<py::gil_scoped_release>())
      .def(
          "wait",
          [](SlotQueue& queue, double seconds) {
            const Milliseconds limit = milliseconds(seconds);
            const py::gil_scoped_release release;
            queue.wait(limit);
          },
          py::arg("seconds"));
  bindProgram(module);
  bindSlotChanges(module);
  bindSummedTensor(module);
}

}  // namespace hipress::bindings
