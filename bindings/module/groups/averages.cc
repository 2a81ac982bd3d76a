// SPDX-License-Identifier: Apache-2.0
//
// The computation of a rank for an average over a process group: the messages of a batch, and the steps of
// PowerSGD.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/module/buffers.h"
#include "bindings/module/kind_names.h"
#include "bindings/module/module.h"
#include "bindings/module/threads.h"
#include "core/base/error.h"
#include "core/codec/slots/slot_changes.h"
#include "core/codec/slots/slot_plan.h"
#include "core/codec/slots/slot_states.h"
#include "core/device/device.h"
#include "core/element/finite.h"
#include "core/element/zeros.h"
#include "core/matrix/power_step.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

using ByteMemory = py::array_t<uint8_t, py::array::c_style>;

Bytes bytesOf(ByteMemory& memory) {
  if (!memory.writeable()) throw invalidArgument("the memory is read-only");
  return {reinterpret_cast<std::byte*>(memory.mutable_data()), static_cast<size_t>(memory.size())};
}

/// NumPy has no bfloat16, so an array of int16 stands for it.
DType slotDType(const py::array& array) {
  const char kind = array.dtype().kind();
  const auto size = array.itemsize();
  if (kind == 'i' && size == 2) return DType::kBFloat16;
  if (kind == 'f' && size == 2) return DType::kFloat16;
  if (kind == 'f' && size == 4) return DType::kFloat32;
  if (kind == 'f' && size == 8) return DType::kFloat64;
  throw invalidArgument("a tensor in slots must be float16, float32, float64, or int16 for bfloat16");
}

std::vector<SlotValues> valuesOf(std::vector<py::array>& arrays) {
  std::vector<SlotValues> values;
  for (py::array& array : arrays) {
    if ((array.flags() & py::array::c_style) == 0 ||
        (array.flags() & py::detail::npy_api::NPY_ARRAY_ALIGNED_) == 0 || !array.writeable())
      throw invalidArgument("a tensor in slots must be contiguous, aligned and writable");
    values.push_back(
        {static_cast<std::byte*>(array.mutable_data()), slotDType(array), static_cast<size_t>(array.size())});
  }
  return values;
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
      .def(py::init())
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
          "Sets a state of a partition of `count` elements, of which `block` share a value.")
      .def(
          "multiply",
          [](const SlotStateTable& table, float factor) {
            for (const std::span<float> place : table.places()) {
              for (float& value : place) value *= factor;
            }
          },
          py::arg("factor"), py::call_guard<py::gil_scoped_release>(),
          "Multiplies all states, which are in the memory of the processor.");
  py::class_<SlotChanges, std::shared_ptr<SlotChanges>>(module, "SlotChanges")
      .def(py::init<bool>(), py::arg("keeps_states") = true)
      .def_property_readonly("keeps_states", &SlotChanges::keepsStates)
      .def_property_readonly("discarded", &SlotChanges::discarded)
      .def("discard", &SlotChanges::discard)
      .def("settle", &SlotChanges::settle);
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
      .def_readwrite("padding", &Slot::padding)
      .def_property(
          "dtype", [](const Slot& slot) { return std::string(dtypeName(slot.dtype)); },
          [](Slot& slot, const std::string& name) { slot.dtype = dtypeFromName(name); })
      .def_readwrite("raw", &Slot::raw)
      .def_readwrite("scaled", &Slot::scaled)
      .def_readwrite("number", &Slot::number)
      .def_readwrite("first_element", &Slot::firstElement)
      .def_readwrite("worker_key", &Slot::workerKey)
      .def_readwrite("aggregator_key", &Slot::aggregatorKey);
  py::class_<SlotPlan, std::shared_ptr<SlotPlan>>(module, "SlotPlan")
      .def(py::init<std::vector<Slot>, int, int, bool>(), py::arg("slots"), py::arg("rank"), py::arg("world"),
           py::arg("whole"))
      .def_property_readonly("outward_bytes",
                             [](const SlotPlan& plan) { return plan.blocks().outwardBytes(); })
      .def_property_readonly("inward_bytes", [](const SlotPlan& plan) { return plan.blocks().inwardBytes(); })
      .def(
          "block_bytes", [](const SlotPlan& plan, int owner) { return plan.blocks().blockBytes(owner); },
          py::arg("owner"))
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
             uint64_t step, double factor, ByteMemory inward, SlotChanges& changed) {
            const auto values = valuesOf(tensors);
            const Bytes bytes = bytesOf(inward);
            const py::gil_scoped_release release;
            plan.average(values, states, {seed, step}, factor, bytes, changed);
          },
          py::arg("tensors"), py::arg("states"), py::arg("seed"), py::arg("step"), py::arg("factor"),
          py::arg("inward").noconvert(), py::arg("changed"))
      .def(
          "decode",
          [](const SlotPlan& plan, std::vector<py::array> tensors, ByteMemory outward, SlotChanges& changed) {
            const auto values = valuesOf(tensors);
            const Bytes bytes = bytesOf(outward);
            const py::gil_scoped_release release;
            plan.decode(values, bytes, changed);
          },
          py::arg("tensors"), py::arg("outward").noconvert(), py::arg("changed"))
      .def(
          "average_whole",
          [](const SlotPlan& plan, std::vector<py::array> tensors, double factor, ByteMemory outward,
             ByteMemory inward, SlotChanges& changed) {
            const auto values = valuesOf(tensors);
            const Bytes sent = bytesOf(outward);
            const Bytes received = bytesOf(inward);
            const py::gil_scoped_release release;
            plan.averageWhole(values, factor, sent, received, changed);
          },
          py::arg("tensors"), py::arg("factor"), py::arg("outward").noconvert(),
          py::arg("inward").noconvert(), py::arg("changed"));
  module.def(
      "are_zeros",
      [](py::array values) {
        std::vector<py::array> one = {std::move(values)};
        const SlotValues given = valuesOf(one).front();
        const py::gil_scoped_release release;
        return areZeros({given.data, given.count * elementSize(given.dtype)});
      },
      py::arg("values"), "Whether all bits of a tensor, as SlotPlan takes it, are 0.");
  module.def(
      "are_finite",
      [](py::array values) {
        std::vector<py::array> one = {std::move(values)};
        const SlotValues given = valuesOf(one).front();
        const py::gil_scoped_release release;
        return allFinite(given.data, given.dtype, given.count);
      },
      py::arg("values"), "Whether no value of a tensor, as SlotPlan takes it, is NaN or infinite.");
}

using Shape = std::pair<size_t, size_t>;

MatrixShape shapeOf(const Shape& shape, const FloatArray& matrix) {
  if (static_cast<size_t>(matrix.size()) != shape.first * shape.second) {
    throw invalidArgument("the shape is " + std::to_string(shape.first) + " rows and " +
                          std::to_string(shape.second) + " columns, but the matrix has " +
                          std::to_string(matrix.size()) + " elements");
  }
  return {shape.first, shape.second};
}

Factor factorOf(FloatArray& values, size_t length) {
  const auto floats = writable(values);
  const size_t vectors = length == 0 ? 0 : floats.size() / length;
  if (vectors == 0 || vectors > kMaxRank || vectors * length != floats.size()) {
    throw invalidArgument("a factor has 1 to " + std::to_string(kMaxRank) + " vectors of " +
                          std::to_string(length) + " elements, not " + std::to_string(floats.size()) +
                          " elements");
  }
  return {floats.data(), length, vectors};
}

void checkRanks(const Factor& left, const Factor& right) {
  if (left.vectors == right.vectors) return;
  throw invalidArgument("the left factor has " + std::to_string(left.vectors) + " vectors, the right one " +
                        std::to_string(right.vectors));
}

void left(const FloatArray& values, const std::optional<FloatArray>& residual, const Shape& size,
          uint32_t step, FloatArray right, FloatArray matrix, FloatArray left, int threads) {
  const MatrixShape shape = shapeOf(size, matrix);
  shapeOf(size, values);
  if (residual) shapeOf(size, *residual);
  const Factor rightFactor = factorOf(right, shape.columns);
  const Factor leftFactor = factorOf(left, shape.rows);
  checkRanks(leftFactor, rightFactor);
  MatrixSource source;
  source.values = readable(values).data();
  source.residual = residual ? readable(*residual).data() : nullptr;
  float* const written = writable(matrix).data();
  Parallel* const parallel = threadsFor(threads);
  const py::gil_scoped_release release;
  power::makeLeft(source, shape, rightFactor, step, written, leftFactor, parallel);
}

void right(const FloatArray& matrix, const Shape& size, FloatArray left, FloatArray right, int threads) {
  const MatrixShape shape = shapeOf(size, matrix);
  const Factor rightFactor = factorOf(right, shape.columns);
  const Factor leftFactor = factorOf(left, shape.rows);
  checkRanks(leftFactor, rightFactor);
  const float* const read = readable(matrix).data();
  Parallel* const parallel = threadsFor(threads);
  const py::gil_scoped_release release;
  power::makeRight(read, shape, leftFactor, rightFactor, parallel);
}

bool result(FloatArray matrix, const Shape& size, FloatArray left, FloatArray right, int ranks, float factor,
            FloatArray output, int threads) {
  const MatrixShape shape = shapeOf(size, matrix);
  shapeOf(size, output);
  if (ranks < 1) throw invalidArgument("ranks must be 1 or more, not " + std::to_string(ranks));
  const Factor rightFactor = factorOf(right, shape.columns);
  const Factor leftFactor = factorOf(left, shape.rows);
  checkRanks(leftFactor, rightFactor);
  float* const residual = writable(matrix).data();
  float* const written = writable(output).data();
  Parallel* const parallel = threadsFor(threads);
  const py::gil_scoped_release release;
  return power::finish(leftFactor, rightFactor, ranks, factor, residual, shape, DType::kFloat32, written,
                       parallel);
}

void bindLowRank(py::module_& module) {
  module.def("low_rank_left", &left, py::arg("values").noconvert(), py::arg("residual").noconvert(),
             py::arg("shape"), py::kw_only(), py::arg("step"), py::arg("right").noconvert(),
             py::arg("matrix").noconvert(), py::arg("left").noconvert(), py::arg("threads") = 1,
             "PowerSGD's step up to the sum of the left factors.");
  module.def("low_rank_right", &right, py::arg("matrix").noconvert(), py::arg("shape"), py::kw_only(),
             py::arg("left").noconvert(), py::arg("right").noconvert(), py::arg("threads") = 1,
             "PowerSGD's step up to the sum of the right factors.");
  module.def("low_rank_result", &result, py::arg("matrix").noconvert(), py::arg("shape"), py::kw_only(),
             py::arg("left").noconvert(), py::arg("right").noconvert(), py::arg("ranks"), py::arg("factor"),
             py::arg("output").noconvert(), py::arg("threads") = 1,
             "The end of PowerSGD's step. Returns whether all values are finite.");
}

}  // namespace

void bindGroupAverages(py::module_& module) {
  bindStates(module);
  bindSlots(module);
  bindLowRank(module);
}

}  // namespace hipress::bindings
