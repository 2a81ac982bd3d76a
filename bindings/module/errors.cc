// SPDX-License-Identifier: Apache-2.0
//
// One Python exception per ErrorKind, defined in hipress/errors.py so that they can be documented, pickled
// and imported without the compiled module.
#include <array>
#include <string>

#include "bindings/module/module.h"
#include "core/error.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

const char* exceptionName(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return "InvalidArgument";
    case ErrorKind::kUnsupported:
      return "Unsupported";
    case ErrorKind::kDuplicateName:
      return "DuplicateName";
    case ErrorKind::kNotInitialized:
      return "NotInitialized";
    case ErrorKind::kMismatch:
      return "Mismatch";
    case ErrorKind::kTimeout:
      return "Timeout";
    case ErrorKind::kPeerLost:
      return "PeerLost";
    case ErrorKind::kCorruptPayload:
      return "CorruptPayload";
    case ErrorKind::kTransport:
      return "TransportError";
    case ErrorKind::kRefused:
      return "Refused";
  }
  return "HipressError";
}

}  // namespace

void setPythonError(const Error& error) {
  const py::object type = py::module_::import("hipress.errors").attr(exceptionName(error.kind()));
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
