// SPDX-License-Identifier: Apache-2.0
//
// What ranks agree on of a tensor, in Python.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/module/collective_name.h"
#include "bindings/module/dtypes.h"
#include "bindings/module/module.h"
#include "core/casync/tensor.h"
#include "core/device/device.h"
#include "core/error.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

Reduction reductionFromName(const std::string& name) {
  for (const auto known :
       {Reduction::kAverage, Reduction::kSum, Reduction::kMin, Reduction::kMax, Reduction::kProduct}) {
    if (reductionName(known) == name) return known;
  }
  throw invalidArgument("op '" + name + "' does not exist; choose average, sum, min, max or product");
}

}  // namespace

Collective collectiveFromName(const std::string& name) {
  for (const auto known : {Collective::kAllreduce, Collective::kBroadcast, Collective::kAllgather,
                           Collective::kAlltoall, Collective::kReducescatter}) {
    if (collectiveName(known) == name) return known;
  }
  throw invalidArgument("there is no collective '" + name + "'");
}

void bindTensorSpec(py::module_& module) {
  py::class_<TensorSpec>(module, "TensorSpec")
      .def(py::init([](std::string name, const std::string& collective, const std::string& dtype,
                       uint64_t count, std::string shape, const std::string& op, double prescale,
                       double postscale, int root, std::string codec, std::string topology, int partitions,
                       uint64_t minCompressBytes, std::string group, int priority, bool transient,
                       std::shared_ptr<Device> device, uint64_t rows, std::vector<uint64_t> received,
                       std::vector<uint64_t> sent) {
             TensorSpec spec;
             spec.name = std::move(name);
             spec.collective = collectiveFromName(collective);
             spec.dtype = dtypeFromName(dtype);
             spec.count = count;
             spec.shape = std::move(shape);
             spec.reduction = reductionFromName(op);
             spec.prescale = prescale;
             spec.postscale = postscale;
             spec.root = root;
             spec.codec = std::move(codec);
             spec.topology = std::move(topology);
             spec.partitions = partitions;
             spec.minCompressBytes = minCompressBytes;
             spec.group = std::move(group);
             spec.priority = priority;
             spec.transient = transient;
             spec.device = std::move(device);
             spec.rows = rows;
             spec.received = std::move(received);
             spec.sent = std::move(sent);
             return spec;
           }),
           py::arg("name"), py::kw_only(), py::arg("collective") = "allreduce", py::arg("dtype") = "float32",
           py::arg("count"), py::arg("shape") = "", py::arg("op") = "average", py::arg("prescale") = 1.0,
           py::arg("postscale") = 1.0, py::arg("root") = 0, py::arg("codec") = "none",
           py::arg("topology") = "ps", py::arg("partitions") = 0, py::arg("min_compress_bytes") = 0,
           py::arg("group") = "", py::arg("priority") = 0, py::arg("transient") = false,
           py::arg("device") = py::none(), py::arg("rows") = 0, py::arg("received") = std::vector<uint64_t>{},
           py::arg("sent") = std::vector<uint64_t>{})
      .def_readonly("name", &TensorSpec::name)
      .def("describe", &TensorSpec::describe);
}

}  // namespace hipress::bindings
