// SPDX-License-Identifier: Apache-2.0
//
// The element kernels and their instruction-set level, for tests and tools.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/module/buffers.h"
#include "bindings/module/kind_names.h"
#include "bindings/module/module.h"
#include "core/base/error.h"
#include "core/element/convert.h"
#include "core/element/multiversion.h"
#include "core/element/nibbles.h"
#include "core/element/reduce.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

Combination combinationFromName(const std::string& name) {
  if (name == "sum") return Combination::kSum;
  if (name == "min") return Combination::kMin;
  if (name == "max") return Combination::kMax;
  if (name == "product") return Combination::kProduct;
  throw invalidArgument("reduce_in_order: op is '" + name + "'; it must be sum, min, max or product");
}

py::array reduce(const std::vector<py::array>& arrays, const std::string& dtypeText, double factor,
                 std::optional<py::array> output, const std::string& op) {
  const DType dtype = dtypeFromName(dtypeText);
  const Combination combination = combinationFromName(op);
  if (!output) {
    if (arrays.empty()) throw invalidArgument("reduce_in_order: no contributions; at least one is needed");
    output = py::array(arrays.front().dtype(), arrays.front().size());
  }
  const auto check = [&](const py::array& array) {
    if (static_cast<size_t>(array.itemsize()) != elementSize(dtype) || array.size() != output->size() ||
        (array.flags() & py::array::c_style) == 0) {
      throw invalidArgument("reduce_in_order: all arrays must be contiguous " + dtypeText + " of one size");
    }
  };
  std::vector<const void*> contributions;
  for (const py::array& array : arrays) {
    check(array);
    contributions.push_back(array.data());
  }
  check(*output);
  void* destination = output->mutable_data();
  const auto count = static_cast<size_t>(output->size());
  {
    const py::gil_scoped_release release;
    combineInOrder(combination, dtype, contributions, count, factor, destination);
  }
  return *output;
}

FloatArray widenArray(const py::object& source, const std::string& dtypeText) {
  const BytesView view(source);
  const DType dtype = dtypeFromName(dtypeText);
  FloatArray output(static_cast<py::ssize_t>(view.bytes().size() / elementSize(dtype)));
  widen(view.bytes().data(), dtype, writable(output));
  return output;
}

py::bytes narrowArray(const FloatArray& input, const std::string& dtypeText) {
  const DType dtype = dtypeFromName(dtypeText);
  std::vector<std::byte> output(static_cast<size_t>(input.size()) * elementSize(dtype));
  narrow(readable(input), dtype, output.data());
  return {reinterpret_cast<const char*>(output.data()), output.size()};
}

std::optional<py::bytes> packedNibbles(const py::object& source) {
  const BytesView view(source);
  std::vector<std::byte> output(nibbleBytes(view.bytes().size()));
  if (!packNibbles(view.bytes().data(), view.bytes().size(), output.data())) return std::nullopt;
  return py::bytes(reinterpret_cast<const char*>(output.data()), output.size());
}

void sumOfNibbles(const std::vector<std::string_view>& packed,
                  const std::vector<py::array_t<int8_t>>& integers, py::array_t<int8_t> output) {
  const auto count = static_cast<size_t>(output.size());
  std::vector<const void*> halves;
  std::vector<const void*> values;
  const auto check = [](bool hasAll) {
    if (!hasAll) throw invalidArgument("sum_nibbles: all contributions must have the output's size");
  };
  for (const std::string_view one : packed) {
    check(one.size() == nibbleBytes(count));
    halves.push_back(one.data());
  }
  for (const auto& one : integers) {
    check(one.size() == output.size());
    values.push_back(one.data());
  }
  sumNibbles(halves, values, count, output.mutable_data());
}

}  // namespace

void bindElements(py::module_& module) {
  module.def("reduce_in_order", &reduce, py::arg("arrays"), py::arg("dtype"), py::arg("factor") = 1.0,
             py::arg("out") = py::none(), py::arg("op") = "sum",
             "The raw merge: (((a0 + a1) + a2) + ...) * factor; or the minimum, maximum or product.");
  module.def("widen", &widenArray, py::arg("source"), py::arg("dtype"),
             "Converts bytes of `dtype` to float32.");
  module.def("narrow", &narrowArray, py::arg("input").noconvert(), py::arg("dtype"),
             "Rounds float32 to `dtype`; returns bytes.");
  module.def("pack_nibbles", &packedNibbles, py::arg("integers"),
             "int8 as integers of 4 bits, two in a byte; None if one of them is not in -8..7.");
  module.def("sum_nibbles", &sumOfNibbles, py::arg("packed"), py::arg("integers"), py::arg("out").noconvert(),
             "The sum of packed contributions and of int8 arrays, one of which may be `out`.");
  module.def("isa_level", [] { return isaLevelName(isaLevel()); });
  module.def(
      "set_isa_level", [](const std::string& name) { setIsaLevel(isaLevelFromName(name)); }, py::arg("name"));
  module.def("isa_levels", [] {
    std::vector<std::string> names;
    for (const IsaLevel level : {IsaLevel::kGeneric, IsaLevel::kV3, IsaLevel::kV4}) {
      if (level <= bestIsaLevel()) names.emplace_back(isaLevelName(level));
    }
    return names;
  });
}

}  // namespace hipress::bindings
