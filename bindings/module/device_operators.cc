// SPDX-License-Identifier: Apache-2.0
//
// A device's part of the codec operators. Python gives addresses of the device: floats as (address,
// elements), memory as (address, bytes).
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/module/module.h"
#include "bindings/module/seconds.h"
#include "core/base/error_name.h"
#include "core/device/operators/process_operators.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

using Place = std::pair<uintptr_t, size_t>;
using StatePlace = std::tuple<std::string, uintptr_t, size_t>;

std::span<float> floatsAt(const Place& place) {
  return {reinterpret_cast<float*>(place.first), place.second};
}

Bytes memoryAt(const Place& place) {
  return {reinterpret_cast<std::byte*>(place.first), place.second};
}

/// The names are those of `given`, which must stay.
std::vector<OperatorState> statesAt(const std::vector<StatePlace>& given) {
  std::vector<OperatorState> states;
  for (const auto& [name, address, count] : given)
    states.push_back({name, {reinterpret_cast<float*>(address), count}});
  return states;
}

void encodeOn(DeviceOperators& operators, uintptr_t stream, const std::shared_ptr<Codec>& codec,
              const Place& gradient, const std::vector<StatePlace>& given, const Place& workspace,
              const Place& message, uint64_t seed, uint64_t step, uint32_t tensor, float scale) {
  const std::vector<OperatorState> states = statesAt(given);
  DeviceOperatorEncode call;
  call.input = floatsAt(gradient);
  call.states = states;
  call.context.seed = seed;
  call.context.step = step;
  call.context.tensor = tensor;
  call.context.scale = scale;
  call.workspace = floatsAt(workspace);
  call.message = memoryAt(message);
  // Kernels may have to be compiled, which calls Python on this thread.
  const py::gil_scoped_release release;
  operators.encode(reinterpret_cast<void*>(stream), codec, call);
}

}  // namespace

void bindDeviceOperators(py::module_& module) {
  py::class_<DeviceOperators, std::shared_ptr<DeviceOperators>>(module, "DeviceOperators")
      .def(py::init<std::shared_ptr<Device>>(), py::arg("device"))
      .def(
          "message_bytes",
          [](const DeviceOperators& operators, const Codec& codec, size_t count) {
            return operators.messageBytes(codec, count);
          },
          py::arg("codec"), py::arg("count"))
      .def(
          "workspace_floats",
          [](const DeviceOperators& operators, const Codec& codec, size_t count,
             const std::vector<StatePlace>& states) {
            return operators.workspaceFloats(codec, count, statesAt(states));
          },
          py::arg("codec"), py::arg("count"), py::arg("states"))
      .def("encode", &encodeOn, py::arg("stream"), py::arg("codec"), py::arg("gradient"), py::arg("states"),
           py::arg("workspace"), py::arg("message"), py::kw_only(), py::arg("seed"), py::arg("step"),
           py::arg("tensor"), py::arg("scale"))
      .def(
          "decode",
          [](DeviceOperators& operators, uintptr_t stream, const std::shared_ptr<Codec>& codec,
             const Place& message, const Place& output, bool accumulate) {
            const py::gil_scoped_release release;
            operators.decode(reinterpret_cast<void*>(stream), codec, memoryAt(message), floatsAt(output),
                             accumulate ? DecodeMode::kAccumulate : DecodeMode::kAssign);
          },
          py::arg("stream"), py::arg("codec"), py::arg("message"), py::arg("output"), py::arg("accumulate"))
      .def("raise_error", &DeviceOperators::raise)
      .def(
          "wait",
          [](DeviceOperators& operators, double seconds) {
            const Milliseconds limit = milliseconds(seconds);
            const py::gil_scoped_release release;
            operators.wait(limit);
          },
          py::arg("seconds"));
  module.def(
      "set_device_maker",
      [](py::function maker) {
        // Never destroyed: threads without the GIL may use it until the process ends.
        auto* const kept = new py::function(std::move(maker));
        const DeviceMaker made = [kept](int ordinal) {
          const py::gil_scoped_acquire locked;
          try {
            return (*kept)(ordinal).cast<std::shared_ptr<Device>>();
          } catch (const py::error_already_set& error) {
            const std::string name = py::str(error.type().attr("__name__"));
            throw Error(errorKindOf(name).value_or(ErrorKind::kUnsupported), py::str(error.value()));
          }
        };
        const py::gil_scoped_release release;
        setDeviceMaker(made);
      },
      py::arg("maker"));
  module.def(
      "process_operators",
      [](int ordinal) {
        const py::gil_scoped_release release;
        return processOperators(ordinal);
      },
      py::arg("ordinal"));
  module.def(
      "operator_codec",
      [](const std::string& name, const std::string& options) {
        return std::const_pointer_cast<Codec>(operatorCodec(name, options));
      },
      py::arg("name"), py::arg("options"));
  module.attr("DEVICE_MESSAGE_END") = kDeviceMessageEnd;
}

}  // namespace hipress::bindings
