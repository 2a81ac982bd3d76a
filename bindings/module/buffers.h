// SPDX-License-Identifier: Apache-2.0
//
// Python's buffers and arrays as the spans of the core. The views convert and copy nothing. An array of
// another dtype or layout is a mistake of the caller, and an error.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <span>

#include "core/base/error.h"

namespace hipress::bindings {

/// A view of any contiguous bytes-like object, which it keeps alive.
class BytesView {
 public:
  explicit BytesView(const pybind11::object& object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw pybind11::error_already_set();
  }
  ~BytesView() { PyBuffer_Release(&view_); }
  BytesView(const BytesView&) = delete;
  BytesView& operator=(const BytesView&) = delete;

  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

using FloatArray = pybind11::array_t<float, pybind11::array::c_style>;

inline void requireAligned(const FloatArray& array) {
  if ((array.flags() & pybind11::detail::npy_api::NPY_ARRAY_ALIGNED_) == 0) {
    throw invalidArgument("the array is not aligned to its elements");
  }
}

inline std::span<const float> readable(const FloatArray& array) {
  requireAligned(array);
  return {array.data(), static_cast<size_t>(array.size())};
}

inline std::span<float> writable(FloatArray& array) {
  requireAligned(array);
  if (!array.writeable()) throw invalidArgument("the array is read-only");
  return {array.mutable_data(), static_cast<size_t>(array.size())};
}

}  // namespace hipress::bindings
