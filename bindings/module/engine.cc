// SPDX-License-Identifier: Apache-2.0
//
// The engine in Python: over UCX or, for tests, in one process, with NumPy arrays as tensors. Frameworks
// submit by their own operators, and use only agree(), wait() and poll() of this file.
#include "core/casync/run/engine.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/module/device.h"
#include "bindings/module/keep.h"
#include "bindings/module/kind_names.h"
#include "bindings/module/module.h"
#include "bindings/module/seconds.h"
#include "bindings/module/waiting/interruptibly.h"
#include "bindings/module/waiting/stop.h"
#include "core/base/error_name.h"
#include "core/casync/run/current_engine.h"
#include "core/codec/scratch_bytes.h"
#include "core/control/local_control.h"
#include "core/device/simulated_device.h"
#include "core/trace/trace_file.h"
#include "core/transport/inproc.h"
#include "core/transport/neighbour/host_identity.h"
#include "core/transport/neighbour/hosts.h"
#include "core/transport/neighbour/neighbour_memory.h"
#include "core/transport/ucx/ucx_info.h"
#include "core/transport/ucx/ucx_transport.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

std::chrono::microseconds microseconds(double seconds) {
  return std::chrono::microseconds(static_cast<int64_t>(std::min(seconds, 3600.0) * 1e6));
}

bool isCoordinated(const std::string& coordinator) {
  if (coordinator == "rank0" || coordinator == "none") return coordinator == "rank0";
  throw invalidArgument("coordinator '" + coordinator + "' does not exist; choose none or rank0");
}

EngineOptions optionsFrom(const py::dict& given) {
  EngineOptions options;
  for (const auto& [key, value] : given) {
    const auto name = key.cast<std::string>();
    if (name == "timeout") {
      options.timeout = milliseconds(value.cast<double>());
    } else if (name == "stall_warning") {
      options.stallWarning = milliseconds(value.cast<double>());
    } else if (name == "compute_threads") {
      options.computeThreads = value.cast<int>();
    } else if (name == "partition_bytes") {
      options.partitionBytes = value.cast<size_t>();
    } else if (name == "window_bytes") {
      options.communication.windowBytes = value.cast<size_t>();
    } else if (name == "bundle_bytes") {
      options.communication.bundle.bytes = value.cast<size_t>();
    } else if (name == "bundle_message_bytes") {
      options.communication.bundle.messageBytes = value.cast<size_t>();
    } else if (name == "bundle_linger") {
      options.communication.bundle.linger = microseconds(value.cast<double>());
    } else if (name == "rounds") {
      options.communication.schedule.rounds = value.cast<bool>();
    } else if (name == "round_bytes") {
      options.communication.schedule.roundBytes = value.cast<size_t>();
    } else if (name == "coordinator") {
      options.communication.schedule.coordinator = isCoordinated(value.cast<std::string>());
    } else if (name == "inline_elements") {
      options.inlineElements = value.cast<size_t>();
    } else if (name == "seed") {
      options.seed = value.cast<uint64_t>();
    } else if (name == "pipelining") {
      options.pipelining = value.cast<bool>();
    } else if (name == "priorities") {
      options.priorities = value.cast<bool>();
    } else if (name == "hosts") {
      options.hosts = value.cast<std::vector<int>>();
    } else {
      throw invalidArgument("the engine has no option '" + name + "'");
    }
  }
  return options;
}

/// Ends an engine without the GIL: its threads may wait for the GIL to release Python objects. A forked child
/// that collects its parent's garbage has none of these threads, so there the engine stays.
std::shared_ptr<Engine> shared(std::unique_ptr<Engine> engine) {
  return {engine.release(), [process = ::getpid()](Engine* owned) {
            if (process != ::getpid()) return;
            if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) {
              delete owned;
              return;
            }
            const py::gil_scoped_release nogil;
            delete owned;
          }};
}

const char* roleName(StateRole role) {
  return role == StateRole::kWorker ? "worker" : "aggregator";
}

StateRole roleFromName(const std::string& name) {
  if (name == "worker") return StateRole::kWorker;
  if (name == "aggregator") return StateRole::kAggregator;
  throw invalidArgument("role '" + name + "' does not exist; the roles are worker and aggregator");
}

/// Calls a Python function at the end of an operation: (error's text or None, whether no rank had values).
OnDone callWhenDone(py::object function) {
  return [kept = std::static_pointer_cast<py::object>(keep(std::move(function)))](const Failure& failure,
                                                                                  bool absent) {
    const py::gil_scoped_acquire gil;
    try {
      (*kept)(failure ? py::object(py::str(failure->what())) : py::none(), absent);
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("the function called when an operation is done");
    }
  };
}

OperationHandle submitArrays(Engine& engine, TensorHandle tensor, const std::optional<py::array>& input,
                             py::array& output, py::object onDone, uint16_t updates) {
  const auto planned = engine.tensor(tensor);
  const TensorSpec& spec = planned->spec();

  const auto check = [&](const py::array& array, size_t bytes) {
    if (static_cast<size_t>(array.nbytes()) != bytes || !(array.flags() & py::array::c_style)) {
      throw invalidArgument("tensor '" + spec.name + "' is submitted with a C-contiguous array of " +
                            std::to_string(bytes) + " bytes");
    }
  };
  check(output, planned->outputBytes());
  Submission submission;
  if (input) {
    check(*input, planned->inputBytes());
    submission.input = input->data();
  }
  submission.output = output.mutable_data();
  submission.keepAlive = keep(py::make_tuple(input ? py::object(*input) : py::none(), output));
  submission.updates = updates;
  if (!onDone.is_none()) submission.onDone = callWhenDone(std::move(onDone));
  const py::gil_scoped_release nogil;
  return engine.submit(tensor, std::move(submission));
}

OperationHandle submitOnDevice(Engine& engine, TensorHandle tensor, const std::shared_ptr<DeviceArray>& input,
                               const std::shared_ptr<DeviceArray>& output,
                               const std::shared_ptr<SimulatedDevice::Event>& ready) {
  const auto planned = engine.tensor(tensor);
  for (const auto& array : {input, output}) {
    const size_t bytes = array == output ? planned->outputBytes() : planned->inputBytes();
    if (array != nullptr && array->bytes() != bytes)
      throw invalidArgument("tensor '" + planned->spec().name + "' has " + std::to_string(bytes) +
                            " bytes, the array " + std::to_string(array->bytes()));
  }
  struct Kept {
    std::shared_ptr<DeviceArray> input, output;
    std::shared_ptr<SimulatedDevice::Event> stream;
    std::shared_ptr<void> ready;
  };
  Submission submission;
  submission.input = input == nullptr ? nullptr : input->data();
  submission.output = output->data();
  std::shared_ptr<void> event;
  if (ready != nullptr && planned->spec().device != nullptr)
    event = planned->spec().device->eventOn(ready.get());
  submission.ready = event.get();
  submission.keepAlive = std::make_shared<Kept>(input, output, ready, std::move(event));
  const py::gil_scoped_release nogil;
  return engine.submit(tensor, std::move(submission));
}

bool waitFor(Engine& engine, OperationHandle operation) {
  bool absent = false;
  for (;;) {
    {
      const py::gil_scoped_release nogil;
      if (engine.wait(operation, kSignalInterval, &absent)) return absent;
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

py::dict countersOf(const Engine& engine) {
  const auto counters = engine.counters();
  py::dict result;
  result["bytes_sent"] = counters.bytesSent;
  result["bytes_received"] = counters.bytesReceived;
  result["messages_sent"] = counters.messagesSent;
  result["messages_received"] = counters.messagesReceived;
  result["bundles_sent"] = counters.bundlesSent;
  result["strangers_dropped"] = counters.strangersDropped;
  const auto raw = engine.rawCounters();
  result["messages_raw_instead"] = raw.messages;
  result["bytes_raw_instead"] = raw.bytes;
  const auto rounds = engine.scheduleCounters();
  result["rounds"] = rounds.begun;
  result["rounds_unplanned"] = rounds.unplanned;
  return result;
}

py::dict memoryOf(Engine& engine) {
  const BufferPool::Statistics pool = engine.poolStatistics();
  const TransportCounters counters = engine.counters();
  py::dict result;
  result["pool_bytes_held"] = pool.held;
  result["pool_bytes_in_use"] = pool.inUse;
  result["pool_peak_bytes_in_use"] = pool.peakInUse;
  result["state_bytes"] = engine.states().bytesHeld();
  result["scratch_bytes"] = scratchBytesHeld();
  const DeviceQueue::Statistics devices = engine.deviceStatistics();
  result["device_pool_bytes_held"] = devices.values;
  result["device_state_bytes"] = devices.states;
  result["device_scratch_bytes"] = devices.scratch;
  result["device_staging_bytes_held"] = devices.staging;
  result["unexpected_bytes"] = counters.unexpectedBytes;
  result["unexpected_peak_bytes"] = counters.unexpectedPeakBytes;
  return result;
}

py::list agreeAnew(Engine& engine, const std::string& listName, const std::vector<TensorHandle>& handles,
                   const std::vector<TensorSpec>& specs) {
  std::vector<AgreedAnew> agreed;
  {
    const py::gil_scoped_release nogil;
    agreed = engine.agreeAnew(listName, handles, specs);
  }
  py::list result;
  for (const auto& [handle, unsent] : agreed) {
    const py::object values =
        unsent.empty() ? py::object(py::none())
                       : py::array_t<float>(static_cast<py::ssize_t>(unsent.size()), unsent.data());
    result.append(py::make_tuple(handle, values));
  }
  return result;
}

/// Python's atexit functions cannot change the exit code. This one skips later exit functions, which are only
/// the last clean-up of libraries.
void failAtExit() {
  ::on_exit(
      [](int code, void*) {
        if (code != 0) return;
        std::fflush(nullptr);
        ::_exit(1);
      },
      nullptr);
}

void recordSpan(Engine& engine, const std::string& name, int64_t startNs, int64_t endNs) {
  TraceRecorder* const recorder = engine.trace();
  if (recorder == nullptr) return;
  TraceSpan span;
  // Span names must be literals: these are the names that adapters use.
  span.name = name == "backward" ? "backward" : name == "step" ? "step" : "synchronize";
  span.track = TraceTrack::kFramework;
  span.startNs = startNs;
  span.endNs = endNs;
  recorder->record(span);
}

std::function<bool(InprocMessage&)> interceptor(const py::function& function) {
  const auto held = keep(function);
  return [held](InprocMessage& message) {
    const py::gil_scoped_acquire gil;
    const auto* data = reinterpret_cast<const char*>(message.payload.data());
    const py::object answer = (*static_cast<py::object*>(held.get()))(
        message.source, message.destination, py::bytes(data, message.payload.size()));
    if (py::isinstance<py::bytes>(answer)) {
      const auto changed = answer.cast<std::string_view>();
      const auto* bytes = reinterpret_cast<const std::byte*>(changed.data());
      message.payload.assign(bytes, bytes + changed.size());
      return true;
    }
    return !answer.is(py::bool_(false));
  };
}

}  // namespace

void bindEngine(py::module_& module) {
  py::class_<Engine, std::shared_ptr<Engine>>(module, "Engine")
      .def_property_readonly("rank", &Engine::rank)
      .def_property_readonly("world_size", &Engine::worldSize)
      .def_property_readonly("hosts", [](const Engine& engine) { return engine.options().hosts; })
      .def("declare", &Engine::declare, py::arg("specs"), py::call_guard<py::gil_scoped_release>())
      .def("join",
           [](const std::shared_ptr<Engine>& engine) {
             return interruptibly([engine] { return engine->join(); });
           })
      .def("announce_refusal", &Engine::announceRefusal, py::arg("name"), py::arg("reason"), py::arg("among"),
           py::call_guard<py::gil_scoped_release>())
      .def(
          "announce", [](Engine& engine, const TensorSpec& spec) { return engine.announce(spec); },
          py::arg("spec"), py::call_guard<py::gil_scoped_release>(),
          "Declares a tensor for one operation without a wait: the operation starts when rank 0 has "
          "answered.")
      .def("agree", &Engine::agree, py::arg("list_name"), py::arg("specs"),
           py::call_guard<py::gil_scoped_release>())
      .def("agree_anew", &agreeAnew, py::arg("list_name"), py::arg("handles"), py::arg("specs"),
           "Agrees on other specifications for existing tensors. Returns their handles from now on, and "
           "the "
           "residuals that the caller adds to their next values.")
      .def("forget", &Engine::forget, py::arg("handles"), py::call_guard<py::gil_scoped_release>())
      .def("submit", &submitArrays, py::arg("tensor"), py::arg("input").none(true), py::arg("output"),
           py::arg("on_done") = py::none(), py::arg("updates") = 0)
      .def("submit_on_device", &submitOnDevice, py::arg("tensor"), py::arg("input").none(true),
           py::arg("output"), py::arg("ready") = py::none())
      .def("poll", &Engine::poll, py::arg("operation"), py::call_guard<py::gil_scoped_release>())
      .def(
          "wait", &waitFor, py::arg("operation"),
          "Waits, and raises the operation's error. Returns True if no rank had values: output is unwritten.")
      .def(
          "travel_raw",
          [](const Engine& engine, const std::vector<TensorHandle>& handles) {
            std::vector<bool> raw;
            for (const TensorHandle handle : handles) {
              const auto tensor = engine.tensor(handle);
              raw.push_back(!tensor->compressed() && !tensor->isLinked());
            }
            return raw;
          },
          py::arg("handles"), "For each tensor of no group: whether no codec encodes any part of it.")
      .def("counters", &countersOf)
      .def("memory_stats", &memoryOf)
      .def(
          "allgather",
          [](const std::shared_ptr<Engine>& engine, const std::string& key, const py::bytes& value,
             std::optional<double> timeout, const ProcessSet& among) {
            const Milliseconds limit = timeout ? milliseconds(*timeout) : engine->options().timeout;
            const auto gathered = interruptibly([engine, key, limit, among, text = std::string(value)] {
              return engine->control().allgather(key, text, limit, among);
            });
            py::list result;
            for (const auto& each : gathered) result.append(py::bytes(each));
            return result;
          },
          py::arg("key"), py::arg("value"), py::arg("timeout") = py::none(), py::arg("among") = ProcessSet{},
          "Small values of the ranks of a process set through the control plane; index: the position in it.")
      .def(
          "state",
          [](Engine& engine, const std::string& tensor, const std::string& role, const std::string& state) {
            std::vector<float> values;
            {
              const py::gil_scoped_release nogil;
              values = engine.states().copy(tensor, roleFromName(role), state);
            }
            return py::array_t<float>(static_cast<py::ssize_t>(values.size()), values.data());
          },
          py::arg("tensor"), py::arg("role"), py::arg("state"),
          "A copy of a codec state of a tensor (role: worker or aggregator); empty: there is no such state.")
      .def(
          "states",
          [](Engine& engine) {
            py::list result;
            for (const StateStore::Entry& entry : engine.states().entries()) {
              result.append(py::make_tuple(entry.tensor, roleName(entry.role), entry.state.name));
            }
            return result;
          },
          "(tensor, role, state) of all states.")
      .def("record_span", &recordSpan, py::arg("name"), py::arg("start_ns"), py::arg("end_ns"))
      .def_property_readonly("traced", [](const Engine& engine) { return engine.trace() != nullptr; })
      .def("start_trace", &Engine::startTrace)
      .def("stop_trace", &Engine::stopTrace, py::arg("path"), py::call_guard<py::gil_scoped_release>())
      .def(
          "shutdown",
          [](Engine& engine, double linger, const std::string& reason) -> std::optional<std::string> {
            engine.shutdown(milliseconds(linger), reason);
            const Failure failure = engine.failedWithoutThis();
            if (!failure) return std::nullopt;
            return failure->what();
          },
          py::arg("linger") = 5.0, py::arg("reason") = "", py::call_guard<py::gil_scoped_release>(),
          "Ends the engine. Returns the failure of other ranks after this rank had left, or None.")
      .def(
          "fail",
          [](Engine& engine, const std::string& kind, const std::string& message) {
            engine.fail({errorKindOf(kind).value_or(ErrorKind::kTransport), message});
          },
          py::arg("kind"), py::arg("message"), py::call_guard<py::gil_scoped_release>(),
          "Ends the job: operations in flight and later calls raise this error, on all ranks. `kind`: the "
          "error's name. The first failure stays.")
      .def("raise_failure", &Engine::throwIfFailed, py::arg("doing"),
           py::call_guard<py::gil_scoped_release>(), "Raises the error that ended the job, if any.");

  module.def(
      "connect_engine",
      [](const std::shared_ptr<ControlPlane>& control, const std::string& localAddress, const py::dict& given,
         const std::string& devices, double startTimeout, const Stop& stop) {
        UcxOptions ucx;
        ucx.devices = devices;
        ucx.localAddress = localAddress;
        ucx.timeout = milliseconds(startTimeout);
        ucx.stop = tokenOf(stop);
        return interruptibly(
            [control, ucx, options = optionsFrom(given)]() mutable {
              auto transport = makeUcxTransport(*control, ucx);
              if (options.hosts.empty()) options.hosts = gatherHosts(*control, ucx.timeout);
              options.neighbours = gatherNeighbours(*control, transport->rank(), options.hosts, ucx.timeout);
              return shared(std::make_unique<Engine>(control, std::move(transport), std::move(options)));
            },
            ucx.stop);
      },
      py::arg("control"), py::arg("local_address"), py::arg("options"), py::arg("devices") = "",
      py::arg("start_timeout") = 60.0, py::arg("stop") = py::none(),
      "An engine over UCX; all ranks call it, and wait for each other for up to `start_timeout` seconds.");

  module.def(
      "make_local_engines",
      [](int worldSize, const py::dict& given, const std::optional<py::function>& intercept,
         const std::optional<py::function>& interceptBundle, bool readNeighbours) {
        InprocOptions inproc;
        inproc.worldSize = worldSize;
        if (intercept) inproc.intercept = interceptor(*intercept);
        if (interceptBundle) inproc.interceptBundle = interceptor(*interceptBundle);
        auto transports = makeInprocTransports(inproc);
        auto controls = makeLocalControl(worldSize);
        std::vector<std::shared_ptr<Engine>> engines;
        for (size_t rank = 0; rank < transports.size(); ++rank) {
          EngineOptions options = optionsFrom(given);
          if (readNeighbours)
            options.neighbours = neighboursAmongThreads(static_cast<int>(rank), options.hosts);
          engines.push_back(
              shared(std::make_unique<Engine>(std::shared_ptr<ControlPlane>(std::move(controls[rank])),
                                              std::move(transports[rank]), std::move(options))));
        }
        return engines;
      },
      py::arg("world_size"), py::arg("options") = py::dict(), py::arg("intercept") = py::none(),
      py::arg("intercept_bundle") = py::none(), py::arg("read_neighbours") = true,
      "Engines whose ranks are threads of this process. `intercept(source, destination, payload)` may drop "
      "or "
      "change a message before it joins a bundle, `intercept_bundle` a bundle.");

  module.def("set_current_engine", &setCurrentEngine, py::arg("engine").none(true),
             py::call_guard<py::gil_scoped_release>());
  module.def("raise_kept_error", &rethrowError,
             "Raises the error that an operator of this thread kept, if any.");
  module.def("prepare_trace_file", &prepareTraceFile, py::arg("path"),
             py::call_guard<py::gil_scoped_release>(),
             "Raises InvalidArgument unless a trace can be written to the file.");
  module.def("fail_at_exit", &failAtExit, "Makes the process' exit code 1 if it would be 0.");
  module.def("trace_now", &TraceRecorder::now, "Nanoseconds on the clock of the trace.");
  module.def("host_identity", &hostIdentity,
             "A text that is equal on two ranks only if they can share memory.");
  module.def("ucx_info", [] {
    const UcxInfo info = ucxInfo();
    py::dict result;
    result["version"] = info.version;
    result["library"] = info.library;
    result["transports"] = info.transports;
    return result;
  });
}

}  // namespace hipress::bindings
