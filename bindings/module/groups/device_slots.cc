// SPDX-License-Identifier: Apache-2.0
//
// The averages of a process group of a device's tensors. Python gives addresses of the device: a tensor as
// (address, dtype, elements), memory as (address, bytes).
#include <pybind11/stl.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/module/kind_names.h"
#include "bindings/module/module.h"
#include "bindings/module/seconds.h"
#include "core/base/error.h"
#include "core/device/slots/device_slot_plan.h"
#include "core/device/slots/device_summed_tensor.h"

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

Bytes bytesAt(const MemoryPlace& place) {
  return {reinterpret_cast<std::byte*>(place.first), place.second};
}

SlotValues valueAt(const TensorPlace& place) {
  return valuesAt({place}).front();
}

std::span<float> floatsAt(const MemoryPlace& place) {
  return {reinterpret_cast<float*>(place.first), place.second / sizeof(float)};
}

/// A stream of a framework, on which HiPress puts work.
class DeviceQueue {
 public:
  DeviceQueue(std::shared_ptr<Device> device, uintptr_t stream)
      : device_(std::move(device)), stream_(device_->makeStreamOn(reinterpret_cast<void*>(stream))) {}

  DeviceStream& stream() { return *stream_; }

  /// Throws Timeout, or the device's error.
  void wait(Milliseconds limit) {
    struct End {
      std::mutex mutex;
      std::condition_variable changed;
      bool reached = false;
      Failure failure;
    };
    const auto end = std::make_shared<End>();
    stream_->whenDone([end](const Failure& failure) {
      const std::lock_guard lock(end->mutex);
      end->reached = true;
      end->failure = failure;
      end->changed.notify_all();
    });
    std::unique_lock lock(end->mutex);
    if (!end->changed.wait_for(lock, limit, [&] { return end->reached; }))
      throw Error(ErrorKind::kTimeout, "device " + device_->name() + " has not ended its work within " +
                                           std::to_string(limit.count()) + " ms");
    if (end->failure != nullptr) throw Error(*end->failure);
  }

 private:
  const std::shared_ptr<Device> device_;
  const std::unique_ptr<DeviceStream> stream_;
};

void bindSlotChanges(py::module_& module) {
  py::class_<DeviceSlotChanges, std::shared_ptr<DeviceSlotChanges>>(module, "DeviceSlotChanges")
      .def(py::init<std::shared_ptr<Device>, bool>(), py::arg("device"), py::arg("keeps_states") = true)
      .def_property_readonly("keeps_states", &DeviceSlotChanges::keepsStates)
      .def("discard", &DeviceSlotChanges::discard)
      .def(
          "look",
          [](const DeviceSlotChanges& changes, DeviceQueue& queue, const TensorPlace& average) {
            const py::gil_scoped_release release;  // kernels may have to be compiled
            changes.look(queue.stream(), valueAt(average));
          },
          py::arg("queue"), py::arg("average"))
      .def(
          "write_verdict",
          [](const DeviceSlotChanges& changes, DeviceQueue& queue, uintptr_t to) {
            changes.writeVerdict(queue.stream(), reinterpret_cast<std::byte*>(to));
          },
          py::arg("queue"), py::arg("to"))
      .def(
          "read_verdicts",
          [](const DeviceSlotChanges& changes, DeviceQueue& queue, uintptr_t first, size_t stride,
             size_t number) {
            const py::gil_scoped_release release;
            changes.readVerdicts(queue.stream(), reinterpret_cast<std::byte*>(first), stride, number);
          },
          py::arg("queue"), py::arg("first"), py::arg("stride"), py::arg("number"))
      .def(
          "settle",
          [](DeviceSlotChanges& changes, DeviceQueue& queue) {
            const py::gil_scoped_release release;
            changes.settle(queue.stream());
          },
          py::arg("queue"));
}

void bindSummedTensor(py::module_& module) {
  py::class_<DeviceSummedTensor, std::shared_ptr<DeviceSummedTensor>>(module, "DeviceSummedTensor")
      .def(py::init([](const std::string& name, const std::shared_ptr<Codec>& codec, size_t count,
                       uint32_t number, std::shared_ptr<Device> device) {
             const py::gil_scoped_release release;
             return std::make_shared<DeviceSummedTensor>(name, codec, count, number, std::move(device));
           }),
           py::arg("name"), py::arg("codec"), py::arg("count"), py::arg("number"), py::arg("device"))
      .def(
          "make_statistics",
          [](DeviceSummedTensor& tensor, DeviceQueue& queue, const TensorPlace& values,
             SlotStateTable& states, const std::string& key, uint64_t seed, uint64_t step,
             const MemoryPlace& statistics, uintptr_t gradient) {
            const py::gil_scoped_release release;
            tensor.makeStatistics(queue.stream(), valueAt(values), states, key, {seed, step},
                                  floatsAt(statistics), reinterpret_cast<float*>(gradient));
          },
          py::arg("queue"), py::arg("values"), py::arg("states"), py::arg("key"), py::arg("seed"),
          py::arg("step"), py::arg("statistics"), py::arg("gradient"))
      .def(
          "make_levels",
          [](DeviceSummedTensor& tensor, DeviceQueue& queue, const MemoryPlace& agreed,
             const MemoryPlace& levels) {
            const py::gil_scoped_release release;
            tensor.makeLevels(queue.stream(), floatsAt(agreed), bytesAt(levels));
          },
          py::arg("queue"), py::arg("agreed"), py::arg("levels"))
      .def(
          "finish",
          [](DeviceSummedTensor& tensor, DeviceQueue& queue, const TensorPlace& values, double factor,
             const MemoryPlace& agreed, uintptr_t gradient, const MemoryPlace& levels,
             DeviceSlotChanges& changed) {
            const py::gil_scoped_release release;
            tensor.finish(queue.stream(), valueAt(values), factor, floatsAt(agreed),
                          reinterpret_cast<const float*>(gradient), bytesAt(levels), changed);
          },
          py::arg("queue"), py::arg("values"), py::arg("factor"), py::arg("agreed"), py::arg("gradient"),
          py::arg("levels"), py::arg("changed"))
      .def("raise_error", &DeviceSummedTensor::raise);
}

}  // namespace

void bindDeviceSlots(py::module_& module) {
  py::class_<DeviceQueue, std::shared_ptr<DeviceQueue>>(module, "DeviceQueue")
      .def(py::init<std::shared_ptr<Device>, uintptr_t>(), py::arg("device"), py::arg("stream"))
      .def(
          "rescale",
          [](DeviceQueue& queue, const std::vector<std::shared_ptr<SlotStateTable>>& tables, uintptr_t now,
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
          [](DeviceQueue& queue, double seconds) {
            const Milliseconds limit = milliseconds(seconds);
            const py::gil_scoped_release release;
            queue.wait(limit);
          },
          py::arg("seconds"));
  py::class_<DeviceSlotPlan, std::shared_ptr<DeviceSlotPlan>>(module, "DeviceSlotPlan")
      // Kernels may have to be compiled, which calls Python on this thread.
      .def(py::init([](std::vector<Slot> slots, int rank, int world, bool whole,
                       std::shared_ptr<Device> device) {
             const py::gil_scoped_release release;
             return std::make_shared<DeviceSlotPlan>(std::move(slots), rank, world, whole, std::move(device));
           }),
           py::arg("slots"), py::arg("rank"), py::arg("world"), py::arg("whole"), py::arg("device"))
      .def_property_readonly("outward_bytes",
                             [](const DeviceSlotPlan& plan) { return plan.blocks().outwardBytes(); })
      .def_property_readonly("inward_bytes",
                             [](const DeviceSlotPlan& plan) { return plan.blocks().inwardBytes(); })
      .def(
          "block_bytes",
          [](const DeviceSlotPlan& plan, int owner) { return plan.blocks().blockBytes(owner); },
          py::arg("owner"))
      .def(
          "prepare",
          [](DeviceSlotPlan& plan, DeviceQueue& queue, const MemoryPlace& outward,
             const MemoryPlace& inward) {
            const py::gil_scoped_release release;
            plan.prepare(queue.stream(), bytesAt(outward), bytesAt(inward));
          },
          py::arg("queue"), py::arg("outward"), py::arg("inward"))
      .def(
          "encode",
          [](DeviceSlotPlan& plan, DeviceQueue& queue, const std::vector<TensorPlace>& tensors,
             SlotStateTable& states, uint64_t seed, uint64_t step, const MemoryPlace& outward,
             DeviceSlotChanges& changed) {
            const auto values = valuesAt(tensors);
            const py::gil_scoped_release release;
            plan.encode(queue.stream(), values, states, {seed, step}, bytesAt(outward), changed);
          },
          py::arg("queue"), py::arg("tensors"), py::arg("states"), py::arg("seed"), py::arg("step"),
          py::arg("outward"), py::arg("changed"))
      .def(
          "average",
          [](DeviceSlotPlan& plan, DeviceQueue& queue, const std::vector<TensorPlace>& tensors,
             SlotStateTable& states, uint64_t seed, uint64_t step, double factor, const MemoryPlace& inward,
             DeviceSlotChanges& changed) {
            const auto values = valuesAt(tensors);
            const py::gil_scoped_release release;
            plan.average(queue.stream(), values, states, {seed, step}, factor, bytesAt(inward), changed);
          },
          py::arg("queue"), py::arg("tensors"), py::arg("states"), py::arg("seed"), py::arg("step"),
          py::arg("factor"), py::arg("inward"), py::arg("changed"))
      .def(
          "decode",
          [](DeviceSlotPlan& plan, DeviceQueue& queue, const std::vector<TensorPlace>& tensors,
             const MemoryPlace& outward, DeviceSlotChanges& changed) {
            const auto values = valuesAt(tensors);
            const py::gil_scoped_release release;
            plan.decode(queue.stream(), values, bytesAt(outward), changed);
          },
          py::arg("queue"), py::arg("tensors"), py::arg("outward"), py::arg("changed"))
      .def(
          "average_whole",
          [](DeviceSlotPlan& plan, DeviceQueue& queue, const std::vector<TensorPlace>& tensors, double factor,
             const MemoryPlace& outward, const MemoryPlace& inward, DeviceSlotChanges& changed) {
            const auto values = valuesAt(tensors);
            const py::gil_scoped_release release;
            plan.averageWhole(queue.stream(), values, factor, bytesAt(outward), bytesAt(inward), changed);
          },
          py::arg("queue"), py::arg("tensors"), py::arg("factor"), py::arg("outward"), py::arg("inward"),
          py::arg("changed"))
      .def(
          "check",
          [](DeviceSlotPlan& plan, DeviceQueue& queue, const DeviceSlotChanges& changed) {
            plan.check(queue.stream(), changed);
          },
          py::arg("queue"), py::arg("changed"))
      .def("raise_error", &DeviceSlotPlan::raise);
  module.attr("DEVICE_SLOT_ALIGNMENT") = kDeviceSlotAlignment;
  bindSlotChanges(module);
  bindSummedTensor(module);
}

}  // namespace hipress::bindings
