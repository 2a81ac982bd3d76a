// SPDX-License-Identifier: Apache-2.0
//
// The computation of a rank in PowerSGD's step over a process group.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>

#include "bindings/module/buffers.h"
#include "bindings/module/module.h"
#include "bindings/module/threads.h"
#include "core/base/error.h"
#include "core/codec/codec.h"
#include "core/element/zeros.h"
#include "core/matrix/power_step.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

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
  return power::finish(leftFactor, rightFactor, static_cast<float>(ranks), factor, residual, shape,
                       DType::kFloat32, written, parallel);
}

}  // namespace

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
  module.def(
      "are_zeros",
      [](const py::array& values) {
        if ((values.flags() & py::array::c_style) == 0) throw invalidArgument("the array is not contiguous");
        const ConstBytes bytes{static_cast<const std::byte*>(values.data()),
                               static_cast<size_t>(values.nbytes())};
        const py::gil_scoped_release release;
        return areZeros(bytes);
      },
      py::arg("values"), "Whether all bits of an array are 0.");
}

}  // namespace hipress::bindings
