// SPDX-License-Identifier: Apache-2.0
//
// The codec states of an engine's tensors as NumPy arrays, for checkpoints.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/module/module.h"
#include "core/casync/run/engine.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

using StateArray = py::array_t<float, py::array::c_style | py::array::forcecast>;
/// Elements, role or None, factor.
using StretchTuple = std::tuple<size_t, std::optional<std::string>, double>;
/// Next step, tensor number for random values, stretches, values by state.
using RestoredTuple =
    std::tuple<uint32_t, uint32_t, std::vector<StretchTuple>, std::map<std::string, StateArray>>;
/// States of which several elements share a value, with the number of these elements.
using StateBlocks = std::map<std::string, size_t>;

const char* nameOfRole(StateRole role) {
  return role == StateRole::kWorker ? "worker" : "aggregator";
}

std::optional<StateRole> roleOf(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  if (*name == "worker") return StateRole::kWorker;
  if (*name == "aggregator") return StateRole::kAggregator;
  throw invalidArgument("role '" + *name + "' does not exist; the roles are worker and aggregator");
}

py::tuple keptOf(const Engine& engine, TensorHandle tensor) {
  KeptStates kept;
  {
    const py::gil_scoped_release nogil;
    kept = engine.keptStates(tensor);
  }
  py::list stretches;
  for (const Stretch& stretch : kept.stretches) {
    const py::object role = stretch.role ? py::object(py::str(nameOfRole(*stretch.role))) : py::none();
    stretches.append(py::make_tuple(stretch.range.count, role, stretch.factor));
  }
  py::dict states;
  for (const CodecState& state : kept.states) states[py::str(state.name)] = state.block;
  return py::make_tuple(kept.steps.next, kept.steps.randomTensor, stretches, states);
}

py::array_t<float> stateOf(const Engine& engine, TensorHandle tensor, const std::string& name, size_t block) {
  if (block < 1) throw invalidArgument("a state has one value for each 1 or more elements, not 0");
  const CodecState state{name, block};
  py::array_t<float> values(static_cast<py::ssize_t>(state.count(engine.tensor(tensor)->spec().count)));
  const std::span<float> span(values.mutable_data(), static_cast<size_t>(values.size()));
  const py::gil_scoped_release nogil;
  engine.readState(tensor, state, span);
  return values;
}

RestoredStates restoredFrom(const RestoredTuple& given, const StateBlocks& blocks) {
  const auto& [next, randomTensor, stretches, values] = given;
  RestoredStates restored;
  restored.steps = {next, randomTensor};
  size_t first = 0;
  for (const auto& [count, role, factor] : stretches) {
    restored.stretches.push_back({{first, count}, roleOf(role), factor});
    first += count;
  }
  for (const auto& [state, array] : values) {
    const auto block = blocks.find(state);
    restored.values[state] = {block == blocks.end() ? 1 : block->second,
                              {array.data(), static_cast<size_t>(array.size())}};
  }
  return restored;
}

py::list restore(Engine& engine, const std::vector<TensorHandle>& tensors,
                 const std::vector<RestoredTuple>& given, const std::vector<StateBlocks>& blocks) {
  std::vector<RestoredStates> restored;
  for (size_t index = 0; index < given.size(); ++index)
    restored.push_back(restoredFrom(given[index], index < blocks.size() ? blocks[index] : StateBlocks()));
  std::vector<std::vector<float>> unsent;
  {
    const py::gil_scoped_release nogil;
    unsent = engine.restoreStates(tensors, restored);
  }
  py::list result;
  for (const auto& values : unsent) {
    result.append(values.empty()
                      ? py::object(py::none())
                      : py::array_t<float>(static_cast<py::ssize_t>(values.size()), values.data()));
  }
  return result;
}

}  // namespace

void bindCodecStates(py::module_& module) {
  auto engine = py::reinterpret_borrow<py::class_<Engine, std::shared_ptr<Engine>>>(module.attr("Engine"));
  engine.def("kept_states", &keptOf, py::arg("tensor"))
      .def("read_state", &stateOf, py::arg("tensor"), py::arg("state"), py::arg("block") = 1)
      .def("multiply_states", &Engine::multiplyStates, py::arg("tensors"), py::arg("factor"),
           py::call_guard<py::gil_scoped_release>())
      .def("settle_by_steps", &Engine::settleBySteps, py::arg("tensors"))
      .def("end_step", &Engine::endStep, py::arg("tensor"), py::call_guard<py::gil_scoped_release>())
      .def("restore_states", &restore, py::arg("tensors"), py::arg("restored"),
           py::arg("blocks") = std::vector<StateBlocks>());
}

}  // namespace hipress::bindings
