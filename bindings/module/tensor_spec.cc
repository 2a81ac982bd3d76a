// SPDX-License-Identifier: Apache-2.0
//
// The specification of a tensor in Python: one constructor for the options of all collectives.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/module/kind_names.h"
#include "bindings/module/module.h"
#include "core/base/error.h"
#include "core/casync/graph/tensor.h"
#include "core/device/device.h"

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
  module.def("process_set_text", &textOf, py::arg("ranks"), "Every rank of a process set, in few words.");
  py::class_<TensorSpec>(module, "TensorSpec")
      .def(py::init([](std::string name, const std::string& collective, const std::string& dtype,
                       uint64_t count, std::string shape, const std::string& op, double prescale,
                       double postscale, int root, std::string codec, std::string topology, int partitions,
                       uint64_t minCompressBytes, std::string group, int priority, bool transient,
                       std::shared_ptr<Device> device, uint64_t rows, std::vector<uint64_t> received,
                       std::vector<uint64_t> sent, bool trimmed, int64_t greatest, std::string lastingName,
                       ProcessSet among) {
             TensorSpec spec;
             spec.name = std::move(name);
             spec.lastingName = std::move(lastingName);
             spec.dtype = dtypeFromName(dtype);
             spec.count = count;
             spec.shape = std::move(shape);
             spec.device = std::move(device);
             spec.priority = priority;
             spec.transient = transient;
             spec.among = std::move(among);
             const ReduceOptions reduce{reductionFromName(op), prescale, postscale};
             switch (collectiveFromName(collective)) {
               case Collective::kAllreduce:
                 spec.options = AllreduceOptions{reduce,     std::move(codec), std::move(topology),
                                                 partitions, minCompressBytes, std::move(group),
                                                 greatest};
                 break;
               case Collective::kBroadcast:
                 spec.options = BroadcastOptions{root, partitions};
                 break;
               case Collective::kAllgather:
                 spec.options = AllgatherOptions{std::move(received), trimmed};
                 break;
               case Collective::kAlltoall:
                 spec.options = AlltoallOptions{std::move(received), std::move(sent)};
                 break;
               case Collective::kReducescatter:
                 spec.options = ReducescatterOptions{reduce, rows};
                 break;
             }
             return spec;
           }),
           py::arg("name"), py::kw_only(), py::arg("collective") = "allreduce", py::arg("dtype") = "float32",
           py::arg("count"), py::arg("shape") = "", py::arg("op") = "average", py::arg("prescale") = 1.0,
           py::arg("postscale") = 1.0, py::arg("root") = 0, py::arg("codec") = "none",
           py::arg("topology") = "ps", py::arg("partitions") = 0, py::arg("min_compress_bytes") = 0,
           py::arg("group") = "", py::arg("priority") = 0, py::arg("transient") = false,
           py::arg("device") = py::none(), py::arg("rows") = 0, py::arg("received") = std::vector<uint64_t>{},
           py::arg("sent") = std::vector<uint64_t>{}, py::arg("trimmed") = false, py::arg("greatest") = 0,
           py::arg("lasting_name") = "", py::arg("among") = ProcessSet{})
      .def_readonly("name", &TensorSpec::name)
      .def("describe", &TensorSpec::describe);
}

}  // namespace hipress::bindings
