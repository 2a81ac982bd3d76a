// SPDX-License-Identifier: Apache-2.0
//
// One Python exception per ErrorKind. hipress/errors.py defines them, so that they have documentation, can be
// pickled, and can be imported without the compiled module.
#include <string>

#include "bindings/module/module.h"
#include "core/base/error_name.h"

namespace py = pybind11;

namespace hipress::bindings {

void setPythonError(const Error& error) {
  const py::object type = py::module_::import("hipress.errors").attr(errorName(error.kind()));
  PyErr_SetString(type.ptr(), error.what());
}

void bindErrors(py::module_&) {
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const Error& error) {
      setPythonError(error);
    }
  });
}

}  // namespace hipress::bindings
