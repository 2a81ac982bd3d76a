// SPDX-License-Identifier: Apache-2.0
//
// A rank's computations when a process group adds encoded values (core/codec/summed_step.h).
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include "bindings/module/buffers.h"
#include "bindings/module/module.h"
#include "bindings/module/threads.h"
#include "core/base/error.h"
#include "core/codec/summed_encoding.h"
#include "core/codec/summed_step.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

using MessageMemory = py::array_t<uint8_t, py::array::c_style>;

void checkCount(const std::string& what, size_t found, size_t expected) {
  if (found == expected) return;
  throw invalidArgument(what + " has " + std::to_string(found) + " elements, needed are " +
                        std::to_string(expected));
}

const SummedEncoding& encodingOf(const Codec& codec) {
  if (codec.summed() != nullptr) return *codec.summed();
  throw unsupported("codec " + std::string(codec.name()) + " encodes values that ranks cannot add");
}

Bytes messageOf(const Codec& codec, MessageMemory& memory, size_t count) {
  checkCount("the message", static_cast<size_t>(memory.size()),
             encodingOf(codec).statisticsBytes(count) + count + 1);
  if (!memory.writeable()) throw invalidArgument("the message is read-only");
  return {reinterpret_cast<std::byte*>(memory.mutable_data()), static_cast<size_t>(memory.size())};
}

void checkStatistics(const Codec& codec, const FloatArray& statistics, size_t count) {
  checkCount("the array of statistics", static_cast<size_t>(statistics.size()),
             encodingOf(codec).statisticsBytes(count) / sizeof(float));
}

void checkStates(const Codec& codec, const std::vector<FloatArray>& states, size_t count) {
  if (states.empty()) return;
  checkCount("the list of states", states.size(), codec.states().size());
  for (size_t state = 0; state < states.size(); ++state)
    checkCount("a state", static_cast<size_t>(states[state].size()), codec.states()[state].count(count));
}

std::vector<const float*> statePointers(const Codec& codec, const std::vector<FloatArray>& states,
                                        size_t count) {
  checkStates(codec, states, count);
  std::vector<const float*> pointers;
  for (const FloatArray& state : states) pointers.push_back(readable(state).data());
  return pointers;
}

EncodeContext summedContext(const Codec& codec, uint64_t seed, uint64_t step, uint32_t tensor, int threads) {
  EncodeContext context;
  context.seed = seed;
  context.step = step;
  context.tensor = tensor;
  context.scale = codec.gradientFactor();
  context.parallel = threadsFor(threads);
  return context;
}

void summedStatistics(const Codec& codec, const FloatArray& values, const std::vector<FloatArray>& before,
                      FloatArray output, uint64_t seed, uint64_t step, uint32_t tensor, int threads) {
  const auto input = readable(values);
  checkStatistics(codec, output, input.size());
  const auto read = statePointers(codec, before, input.size());
  std::vector<float*> unwritten(read.size(), nullptr);
  const EncodeContext context = summedContext(codec, seed, step, tensor, threads);
  const Bytes written = std::as_writable_bytes(writable(output));
  const py::gil_scoped_release release;
  makeStatistics(codec, input, {read, unwritten}, context, written);
}

void summedLevels(const Codec& codec, const FloatArray& agreed, const FloatArray& values,
                  const std::vector<FloatArray>& before, std::vector<FloatArray> after, MessageMemory message,
                  uint64_t seed, uint64_t step, uint32_t tensor, int threads) {
  const auto input = readable(values);
  checkStatistics(codec, agreed, input.size());
  const auto read = statePointers(codec, before, input.size());
  checkStates(codec, after, input.size());
  std::vector<float*> written;
  for (FloatArray& state : after) written.push_back(writable(state).data());
  checkCount("the list of new states", written.size(), read.size());
  const EncodeContext context = summedContext(codec, seed, step, tensor, threads);
  const ConstBytes known = std::as_bytes(readable(agreed));
  const Bytes bytes = messageOf(codec, message, input.size());
  const py::gil_scoped_release release;
  makeLevels(codec, known, input, {read, written}, context, bytes);
}

bool summedResult(const Codec& codec, const FloatArray& agreed, MessageMemory message, double factor,
                  FloatArray output, int threads) {
  const auto values = writable(output);
  checkStatistics(codec, agreed, values.size());
  const ConstBytes known = std::as_bytes(readable(agreed));
  const Bytes bytes = messageOf(codec, message, values.size());
  Parallel* const parallel = threadsFor(threads);
  const py::gil_scoped_release release;
  return finishSum(codec, known, bytes, factor, values, parallel);
}

}  // namespace

void bindSummed(py::module_& module) {
  module.def("summed_statistics", &summedStatistics, py::arg("codec"), py::arg("values").noconvert(),
             py::arg("before").noconvert(), py::kw_only(), py::arg("statistics").noconvert(), py::arg("seed"),
             py::arg("step"), py::arg("tensor"), py::arg("threads") = 1,
             "A rank's statistics; not finite if its values are not.");
  module.def("summed_levels", &summedLevels, py::arg("codec"), py::arg("agreed").noconvert(),
             py::arg("values").noconvert(), py::arg("before").noconvert(), py::arg("after").noconvert(),
             py::kw_only(), py::arg("message").noconvert(), py::arg("seed"), py::arg("step"),
             py::arg("tensor"), py::arg("threads") = 1,
             "A rank's message from the agreed statistics, with its failures behind.");
  module.def(
      "summed_result", &summedResult, py::arg("codec"), py::arg("agreed").noconvert(),
      py::arg("message").noconvert(), py::kw_only(), py::arg("factor"), py::arg("output").noconvert(),
      py::arg("threads") = 1,
      "From the sum of all ranks' levels to the sum of their values times a factor: whether all are finite.");
}

}  // namespace hipress::bindings
