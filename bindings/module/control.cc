// SPDX-License-Identifier: Apache-2.0
//
// The control plane in Python: for start-up code, in which a rank meets the others, and for tests.
#include <Python.h>
#include <pybind11/stl.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/module/module.h"
#include "bindings/module/seconds.h"
#include "bindings/module/waiting/interruptibly.h"
#include "bindings/module/waiting/left_threads.h"
#include "bindings/module/waiting/stop.h"
#include "core/base/error_name.h"
#include "core/control/control_plane.h"
#include "core/control/local_control.h"
#include "core/control/tcp/tcp_control.h"
#include "core/control/wire/network_interface.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

using NoGil = py::call_guard<py::gil_scoped_release>;

std::string nameOf(ControlNotice::Kind kind) {
  switch (kind) {
    case ControlNotice::Kind::kLost:
      return "lost";
    case ControlNotice::Kind::kLeft:
      return "left";
    case ControlNotice::Kind::kAborted:
      return "aborted";
    case ControlNotice::Kind::kConflict:
      return "conflict";
    case ControlNotice::Kind::kJoined:
      return "joined";
    case ControlNotice::Kind::kDemand:
      return "demand";
  }
  return "unknown";
}

/// The destructor waits for threads that may wait for the GIL, so it must not hold the GIL.
struct WithoutGil {
  template <typename T>
  void operator()(T* object) const {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
      const py::gil_scoped_release release;
      delete object;
    } else {
      delete object;
    }
  }
};

std::shared_ptr<ControlPlane> shared(std::unique_ptr<ControlPlane> plane) {
  return {plane.release(), WithoutGil{}};
}

/// The notices for Python code. Handlers run without the GIL, so they only store the notices.
struct NoticeLog {
  void write(const ControlNotice& notice) {
    const std::lock_guard lock(mutex);
    notices.push_back(notice);
  }

  py::list read() {
    const std::lock_guard lock(mutex);
    py::list list;
    for (const ControlNotice& notice : notices) {
      const auto size = static_cast<py::ssize_t>(notice.message.size());
      const auto message =
          py::reinterpret_steal<py::str>(PyUnicode_DecodeUTF8(notice.message.data(), size, "replace"));
      list.append(
          py::make_tuple(nameOf(notice.kind), notice.rank, notice.tensor, errorName(notice.error), message));
    }
    return list;
  }

  std::mutex mutex;
  std::vector<ControlNotice> notices;
};

/// The first call makes the log, and the log listens from then on. Until then notices wait for the engine's
/// handler.
py::list noticesOf(const py::object& self) {
  constexpr const char* kAttribute = "_notice_log";
  if (!py::hasattr(self, kAttribute)) {
    auto log = std::make_shared<NoticeLog>();
    const auto plane = self.cast<std::shared_ptr<ControlPlane>>();
    {
      const py::gil_scoped_release release;
      plane->onNotice([log](const ControlNotice& notice) { log->write(notice); });
    }
    self.attr(kAttribute) = py::cast(log);
  }
  return self.attr(kAttribute).cast<std::shared_ptr<NoticeLog>>()->read();
}

py::list allgather(const std::shared_ptr<ControlPlane>& plane, const std::string& key, const py::bytes& value,
                   double timeout, const ProcessSet& among) {
  const Milliseconds limit = milliseconds(timeout);
  const auto values = interruptibly([plane, key, given = std::string(value), limit, among] {
    return plane->allgather(key, given, limit, among);
  });
  py::list list;
  for (const std::string& one : values) list.append(py::bytes(one));
  return list;
}

py::list alltoall(const std::shared_ptr<ControlPlane>& plane, const std::string& key,
                  const std::vector<py::bytes>& values, double timeout) {
  const auto found =
      interruptibly([plane, key, given = std::vector<std::string>(values.begin(), values.end()),
                     limit = milliseconds(timeout)] { return plane->alltoall(key, given, limit); });
  py::list list;
  for (const std::string& one : found) list.append(py::bytes(one));
  return list;
}

/// A server that Python code can end before its object is collected.
class ServerHandle {
 public:
  explicit ServerHandle(const RendezvousOptions& options)
      : server_(std::make_unique<ControlServer>(options)), port_(server_->port()) {}
  int port() const { return port_; }
  void close() {
    std::unique_ptr<ControlServer> ending;
    const std::lock_guard lock(mutex_);
    ending.swap(server_);
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<ControlServer> server_;
  int port_;
};

RendezvousOptions rendezvous(int rank, int worldSize, const std::string& host, int port, int listenFd,
                             const std::string& token, double timeout, double heartbeat,
                             double heartbeatLimit, double stallWarning) {
  RendezvousOptions options;
  options.rank = rank;
  options.worldSize = worldSize;
  options.host = host;
  options.port = port;
  options.listenFd = listenFd;
  options.token = token;
  options.timeout = milliseconds(timeout);
  options.heartbeat = {milliseconds(heartbeat), milliseconds(heartbeatLimit)};
  options.stallWarning = milliseconds(stallWarning);
  return options;
}

std::shared_ptr<ServerHandle> makeServer(const std::string& host, int port, int worldSize,
                                         const std::string& token, int listenFd, double timeout,
                                         double heartbeat, double heartbeatLimit, double stallWarning) {
  const RendezvousOptions options =
      rendezvous(0, worldSize, host, port, listenFd, token, timeout, heartbeat, heartbeatLimit, stallWarning);
  const py::gil_scoped_release release;
  return {new ServerHandle(options), WithoutGil{}};
}

std::pair<std::shared_ptr<ControlPlane>, std::string> connect(int rank, int worldSize,
                                                              const std::string& host, int port,
                                                              const std::string& token, double timeout,
                                                              double heartbeat, double heartbeatLimit,
                                                              double stallWarning, const Stop& stop) {
  RendezvousOptions options =
      rendezvous(rank, worldSize, host, port, -1, token, timeout, heartbeat, heartbeatLimit, stallWarning);
  options.stop = tokenOf(stop);
  return interruptibly(
      [options] {
        std::string address;
        auto plane = shared(connectControl(options, &address));
        return std::pair(std::move(plane), std::move(address));
      },
      options.stop);
}

std::vector<std::shared_ptr<ControlPlane>> makeLocal(int worldSize) {
  const py::gil_scoped_release release;
  std::vector<std::shared_ptr<ControlPlane>> planes;
  for (auto& plane : makeLocalControl(worldSize)) planes.push_back(shared(std::move(plane)));
  return planes;
}

}  // namespace

void bindControl(py::module_& module) {
  py::class_<std::stop_source>(module, "StopSource")
      .def(py::init<>())
      .def("request_stop", &std::stop_source::request_stop, NoGil());
  // Registered before shutdown() is, so it runs after it.
  py::module_::import("atexit").attr("register")(py::cpp_function([] {
    constexpr std::chrono::seconds kLongestWait{5};
    const py::gil_scoped_release release;
    joinLeftThreads(kLongestWait);
  }));
  py::class_<NoticeLog, std::shared_ptr<NoticeLog>>(module, "_NoticeLog");

  py::class_<ControlPlane, std::shared_ptr<ControlPlane>>(module, "ControlPlane", py::dynamic_attr())
      .def_property_readonly("rank", &ControlPlane::rank)
      .def_property_readonly("world_size", &ControlPlane::worldSize)
      .def("allgather", &allgather, py::arg("key"), py::arg("value"), py::arg("timeout"),
           py::arg("among") = ProcessSet{})
      .def("alltoall", &alltoall, py::arg("key"), py::arg("values"), py::arg("timeout"))
      .def(
          "declare",
          [](ControlPlane& plane, const std::string& name, const std::string& specification, bool transient,
             double timeout, const ProcessSet& among) {
            return plane.declare({{name, specification, transient}}, milliseconds(timeout), among).front();
          },
          py::arg("name"), py::arg("specification"), py::arg("transient") = false, py::arg("timeout") = 60.0,
          py::arg("among") = ProcessSet{}, NoGil())
      .def(
          "abort",
          [](ControlPlane& plane, const std::string& kind, const std::string& message) {
            const auto known = errorKindOf(kind);
            if (!known) throw invalidArgument("'" + kind + "' is not the name of a HiPress error");
            plane.abort(*known, message);
          },
          py::arg("kind"), py::arg("message"), NoGil())
      .def(
          "leave", [](ControlPlane& plane, double linger) { plane.leave(milliseconds(linger), {}); },
          py::arg("linger"), NoGil())
      .def("close", &ControlPlane::close, NoGil())
      .def("notices", &noticesOf);

  py::class_<ServerHandle, std::shared_ptr<ServerHandle>>(module, "ControlServer")
      .def(py::init(&makeServer), py::kw_only(), py::arg("host") = "127.0.0.1", py::arg("port") = 0,
           py::arg("world_size"), py::arg("token"), py::arg("listen_fd") = -1, py::arg("timeout") = 60.0,
           py::arg("heartbeat") = 1.0, py::arg("heartbeat_limit") = 7.0, py::arg("stall_warning") = 60.0)
      .def_property_readonly("port", &ServerHandle::port)
      .def("close", &ServerHandle::close, NoGil());

  module.def("connect_control", &connect, py::kw_only(), py::arg("rank"), py::arg("world_size"),
             py::arg("host") = "127.0.0.1", py::arg("port"), py::arg("token"), py::arg("timeout") = 60.0,
             py::arg("heartbeat") = 1.0, py::arg("heartbeat_limit") = 7.0, py::arg("stall_warning") = 60.0,
             py::arg("stop") = py::none());
  module.def("make_local_control", &makeLocal, py::arg("world_size"));
  module.def("network_interfaces", [] {
    py::list list;
    for (const InterfaceAddresses& each : everyInterface())
      list.append(py::make_tuple(each.name, each.problem, each.isLoopback, each.addresses));
    return list;
  });
}

}  // namespace hipress::bindings
