// SPDX-License-Identifier: Apache-2.0
//
// Allgather and alltoall in Python. The size of their result is known only when the operation is in flight.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/module/keep.h"
#include "bindings/module/module.h"
#include "core/casync/run/engine.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

/// The state that the engine shares with the waiting thread.
struct Blocks {
  std::shared_ptr<Engine> engine;
  size_t rowBytes = 0;

  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Failure failure;
  std::vector<uint64_t> rows;
  std::shared_ptr<std::byte[]> memory;

  void* allocate(std::span<const uint64_t> rowsFrom) {
    rows.assign(rowsFrom.begin(), rowsFrom.end());
    const uint64_t all = std::accumulate(rows.begin(), rows.end(), uint64_t{0});
    memory.reset(new std::byte[static_cast<size_t>(all) * rowBytes]);
    return memory.get();
  }

  void end(const Failure& how) {
    {
      const std::lock_guard lock(mutex);
      failure = how;
      done = true;
    }
    changed.notify_all();
  }

  bool waitFor(Milliseconds time) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, time, [this] { return done; });
  }
};

std::shared_ptr<Blocks> moveBlocks(const std::shared_ptr<Engine>& engine, TensorSpec spec,
                                   const py::array& input, uint64_t rowElements, std::vector<uint64_t> rows) {
  auto blocks = std::make_shared<Blocks>();
  blocks->engine = engine;
  blocks->rowBytes = static_cast<size_t>(rowElements) * elementSize(spec.dtype);
  const size_t bytes = std::accumulate(rows.begin(), rows.end(), uint64_t{0}) * blocks->rowBytes;
  if (static_cast<size_t>(input.nbytes()) != bytes || !(input.flags() & py::array::c_style)) {
    throw invalidArgument("tensor '" + spec.name + "' is submitted with a C-contiguous array of " +
                          std::to_string(bytes) + " bytes");
  }
  BlockSubmission submission;
  submission.input = input.data();
  submission.rowElements = rowElements;
  submission.rows = std::move(rows);
  submission.keepAlive = keep(input);
  submission.allocate = [blocks](std::span<const uint64_t> rowsFrom) { return blocks->allocate(rowsFrom); };
  submission.onDone = [blocks](const Failure& failure) { blocks->end(failure); };
  const py::gil_scoped_release nogil;
  engine->moveBlocks(std::move(spec), std::move(submission));
  return blocks;
}

py::tuple resultOf(const std::shared_ptr<Blocks>& blocks) {
  for (bool done = false; !done;) {
    {
      const py::gil_scoped_release nogil;
      done = blocks->waitFor(kSignalInterval);
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
  if (blocks->failure) throw *blocks->failure;
  const uint64_t rows = std::accumulate(blocks->rows.begin(), blocks->rows.end(), uint64_t{0});
  auto* owner = new std::shared_ptr<std::byte[]>(blocks->memory);
  const py::capsule base(owner,
                         [](void* pointer) { delete static_cast<std::shared_ptr<std::byte[]>*>(pointer); });
  const py::array_t<uint8_t> values(static_cast<py::ssize_t>(rows * blocks->rowBytes),
                                    reinterpret_cast<const uint8_t*>(blocks->memory.get()), base);
  return py::make_tuple(values, blocks->rows);
}

}  // namespace

void bindBlocks(py::module_& module) {
  py::class_<Blocks, std::shared_ptr<Blocks>>(module, "Blocks")
      .def("poll", [](Blocks& blocks) { return blocks.waitFor(Milliseconds(0)); })
      .def("wait", &resultOf,
           "The bytes of all blocks, in rank order, and the number of rows from each rank.");
  module.def("move_blocks", &moveBlocks, py::arg("engine"), py::arg("spec"), py::arg("input"),
             py::arg("row_elements"), py::arg("rows"), "Starts an allgather or an alltoall.");
}

}  // namespace hipress::bindings
