// SPDX-License-Identifier: Apache-2.0
//
// Devices in Python: GPUs, and the simulated one, with which tests of the engine run where there is none.
#include "bindings/module/device.h"

#include <pybind11/stl.h>

#include <chrono>
#include <string>
#include <utility>

#include "bindings/module/module.h"
#include "core/device/cuda_library.h"
#include "core/device/simulated_device.h"
#include "core/error.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

void checkSize(const DeviceArray& array, const py::array& values) {
  if (static_cast<size_t>(values.nbytes()) == array.bytes() && (values.flags() & py::array::c_style)) return;
  throw invalidArgument("a C-contiguous array of " + std::to_string(array.bytes()) + " bytes is needed");
}

}  // namespace

void bindDevice(py::module_& module) {
  py::class_<Device, std::shared_ptr<Device>>(module, "Device")
      .def_property_readonly("name", &Device::name)
      .def_property_readonly("blocks", [](Device& device) { return device.memory()->blocks(); })
      .def(
          "array",
          [](const std::shared_ptr<Device>& device, const py::array& values) {
            auto array = std::make_shared<DeviceArray>(device, static_cast<size_t>(values.nbytes()));
            checkSize(*array, values);
            array->write(values);
            return array;
          },
          py::arg("values"));

  module.def(
      "cuda_device",
      [](int ordinal, const std::string& driver, const std::string& library) {
        return makeCudaDevice(ordinal, {driver, library});
      },
      py::arg("ordinal"), py::kw_only(), py::arg("driver") = CudaFiles{}.driver, py::arg("library") = "",
      py::call_guard<py::gil_scoped_release>());
  module.def("built_with_cuda", &builtWithCuda);

  py::class_<SimulatedDevice, Device, std::shared_ptr<SimulatedDevice>>(module, "SimulatedDevice")
      .def(py::init([](uint64_t seed, double delay) {
             SimulatedDeviceOptions options;
             options.seed = seed;
             options.delay = std::chrono::microseconds(static_cast<int64_t>(delay * 1e6));
             return std::make_shared<SimulatedDevice>(options);
           }),
           py::kw_only(), py::arg("seed") = 0, py::arg("delay") = 2e-4)
      .def("fail_after", &SimulatedDevice::failAfter, py::arg("work"))
      .def("hang", &SimulatedDevice::hang)
      .def("resume", &SimulatedDevice::resume);

  py::class_<SimulatedDevice::Event, std::shared_ptr<SimulatedDevice::Event>>(module, "SimulatedEvent")
      .def(py::init<>())
      .def("fire", &SimulatedDevice::Event::fire);

  py::class_<DeviceArray, std::shared_ptr<DeviceArray>>(module, "DeviceArray")
      .def("write",
           [](DeviceArray& array, const py::array& values) {
             checkSize(array, values);
             array.write(values);
           })
      .def("read", [](const DeviceArray& array, py::array values) {
        checkSize(array, values);
        array.read(values);
      });
}

}  // namespace hipress::bindings
