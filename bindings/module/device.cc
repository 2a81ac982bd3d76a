// SPDX-License-Identifier: Apache-2.0
//
// Devices in Python: GPUs, and the simulated device, on which engine tests run without a GPU.
#include "bindings/module/device.h"

#include <pybind11/stl.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/module/module.h"
#include "core/base/error.h"
#include "core/base/error_name.h"
#include "core/device/cuda/cuda_device.h"
#include "core/device/cuda/elements.h"
#include "core/device/host_device.h"
#include "core/device/simulated_device.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

void checkSize(const DeviceArray& array, const py::array& values) {
  if (static_cast<size_t>(values.nbytes()) == array.bytes() && (values.flags() & py::array::c_style)) return;
  throw invalidArgument("a C-contiguous array of " + std::to_string(array.bytes()) + " bytes is needed");
}

/// Python's compiler of kernels. Its exception becomes an error of the core.
cuda::KernelCompiler compilerOf(py::function function) {
  // The last copy may be destroyed on a thread without the GIL.
  const std::shared_ptr<py::function> kept(new py::function(std::move(function)), [](py::function* last) {
    const py::gil_scoped_acquire locked;
    delete last;
  });
  return [kept](const std::string& title, const std::string& text, int major, int minor) {
    const py::gil_scoped_acquire locked;
    try {
      return (*kept)(title, text, major, minor).cast<std::string>();
    } catch (const py::error_already_set& error) {
      const std::string name = py::str(error.type().attr("__name__"));
      throw Error(errorKindOf(name).value_or(ErrorKind::kUnsupported), py::str(error.value()));
    }
  };
}

std::vector<std::pair<std::string, std::string>> elementKernels() {
  std::vector<std::pair<std::string, std::string>> all;
  const auto add = [&](const cuda::ElementKernels& kernels) {
    all.emplace_back(kernels.title, kernels.text);
  };
  add(cuda::copyingKernels());
  add(cuda::summedKernels());
  add(cuda::slotKernels());
  for (int number = 0; number < kDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (isFloatingPoint(dtype)) add(cuda::conversionKernels(dtype));
    for (const Combination combination :
         {Combination::kSum, Combination::kMin, Combination::kMax, Combination::kProduct}) {
      add(cuda::mergeKernels(combination, dtype, 1.0));
      if (!isFloatingPoint(dtype) && dtype != DType::kBool) add(cuda::mergeKernels(combination, dtype, 0.5));
    }
  }
  return all;
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
      [](int ordinal, py::function compiler, const std::string& driver) {
        cuda::KernelCompiler compile = compilerOf(std::move(compiler));
        const py::gil_scoped_release unlocked;
        return cuda::makeCudaDevice(ordinal, std::move(compile), driver);
      },
      py::arg("ordinal"), py::kw_only(), py::arg("compiler"), py::arg("driver") = "libcuda.so.1",
      "The GPU with this number. compiler(title, text, major, minor) returns NVRTC's output for the text of "
      "kernels. Any "
      "thread calls it.");
  module.def("element_kernels", &elementKernels,
             "All kernels of HiPress but the codecs', as pairs of a title and a text for NVRTC.");

  py::class_<HostDevice, Device, std::shared_ptr<HostDevice>>(module, "HostDevice").def(py::init<>());

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
