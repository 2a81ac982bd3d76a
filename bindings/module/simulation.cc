// SPDX-License-Identifier: Apache-2.0
//
// The simulation of a step in Python. secopa/python/models/timeline.py passes the costs of a profile to it.
#include <pybind11/stl.h>

#include <chrono>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/module/module.h"
#include "core/simulation/step_description.h"

namespace py = pybind11;

namespace hipress::bindings {
namespace {

using Points = std::vector<std::pair<double, double>>;
/// Index of the costs, and bytes.
using Work = std::pair<int, double>;
/// Name, elements, element bytes, codec, topology, partitions, priority, release, members, message times,
/// after, before, behind, whether it packs a rank's own values.
using Gradient = std::tuple<std::string, uint64_t, int, int, std::string, int, int, double, int, double, int,
                            Work, Work, bool>;
using Unlike = std::vector<std::tuple<int, int, LinkDescription>>;

CostTable tableOf(const Points& points) {
  std::vector<CostTable::Point> made;
  for (const auto& [size, value] : points) made.push_back({size, value});
  return CostTable(std::move(made));
}

ComputeCosts computeCosts(const std::vector<Points>& byThreads, std::vector<double> slowdown) {
  ComputeCosts costs;
  for (const Points& points : byThreads) costs.byThreads.push_back(tableOf(points));
  costs.slowdown = std::move(slowdown);
  return costs;
}

ClusterDescription cluster(std::vector<int> hosts, std::vector<int> machines, std::vector<int> cores,
                           const LinkDescription& network, const LinkDescription& sharedMemory,
                           const Unlike& unlike, int computeThreads, bool neighboursRead, double readByte) {
  ClusterDescription made;
  made.hosts = std::move(hosts);
  made.machines = std::move(machines);
  made.cores = std::move(cores);
  made.network = network;
  made.sharedMemory = sharedMemory;
  for (const auto& [source, destination, link] : unlike) made.unlike[{source, destination}] = link;
  made.computeThreads = computeThreads;
  made.neighboursRead = neighboursRead;
  made.readByte = readByte;
  return made;
}

EngineCosts engineCosts(double submission, double task, double bundledMessage, const ComputeCosts& sum) {
  return {submission, task, bundledMessage, sum};
}

StepOutcome simulate(const ClusterDescription& cluster, const EngineCosts& engine,
                     const std::vector<CodecCosts>& codecs, const std::vector<Gradient>& gradients,
                     const std::vector<ComputeCosts>& computations, const EngineSettings& settings,
                     int backwardThreads, double backward, bool symmetric) {
  StepDescription step;
  step.cluster = cluster;
  step.engine = engine;
  step.settings = settings;
  step.codecs = codecs;
  step.computations = computations;
  step.backwardThreads = backwardThreads;
  step.backward = backward;
  step.symmetric = symmetric;
  for (const auto& [name, elements, elementBytes, codec, topology, partitions, priority, release, members,
                    times, after, before, behind, packsOwn] : gradients) {
    step.gradients.push_back({name, elements, elementBytes, codec, topology, partitions, priority, release,
                              members, times, after, WholeWork{before.first, before.second},
                              WholeWork{behind.first, behind.second}, packsOwn});
  }
  const py::gil_scoped_release nogil;
  return simulateStep(step);
}

EngineSettings settingsOf(size_t partitionBytes, size_t inlineElements, size_t windowBytes,
                          size_t bundleBytes, size_t bundleMessageBytes, double bundleLinger,
                          bool priorities) {
  EngineSettings settings;
  settings.partitionBytes = partitionBytes;
  settings.inlineElements = inlineElements;
  settings.windowBytes = windowBytes;
  settings.bundle.bytes = bundleBytes;
  settings.bundle.messageBytes = bundleMessageBytes;
  settings.bundle.linger = std::chrono::microseconds(static_cast<int64_t>(bundleLinger * 1e6));
  settings.priorities = priorities;
  return settings;
}

}  // namespace

void bindSimulation(py::module_& module) {
  py::class_<ComputeCosts>(module, "ComputeCosts")
      .def(py::init(&computeCosts), py::arg("by_threads") = std::vector<Points>{},
           py::arg("slowdown") = std::vector<double>{})
      .def("seconds", &ComputeCosts::seconds, py::arg("raw_bytes"), py::arg("threads") = 1,
           py::arg("busy") = 1);
  py::class_<CodecCosts>(module, "SimulatedCodec")
      .def(py::init([](const ComputeCosts& encode, const ComputeCosts& decode, const ComputeCosts& merge,
                       const Points& encodedBytes, bool mergesDecoded) {
             return CodecCosts{encode, decode, merge, tableOf(encodedBytes), mergesDecoded};
           }),
           py::arg("encode"), py::arg("decode"), py::arg("merge"), py::arg("encoded_bytes"),
           py::arg("merges_decoded") = false);
  py::class_<LinkDescription>(module, "SimulatedLink")
      .def(py::init([](double bytesPerSecond, double latency, double sendMessage, double sendByte,
                       double receiveMessage, double receiveByte) {
             return LinkDescription{bytesPerSecond, latency,        sendMessage,
                                    sendByte,       receiveMessage, receiveByte};
           }),
           py::kw_only(), py::arg("bytes_per_s"), py::arg("latency_s") = 0.0,
           py::arg("send_s_per_message") = 0.0, py::arg("send_s_per_byte") = 0.0,
           py::arg("receive_s_per_message") = 0.0, py::arg("receive_s_per_byte") = 0.0);
  py::class_<ClusterDescription>(module, "SimulatedCluster")
      .def(py::init(&cluster), py::kw_only(), py::arg("hosts"), py::arg("machines"), py::arg("cores"),
           py::arg("network"), py::arg("shared_memory"), py::arg("unlike") = Unlike{},
           py::arg("compute_threads") = 1, py::arg("neighbours_read") = true,
           py::arg("read_s_per_byte") = 0.0);
  py::class_<EngineCosts>(module, "EngineCosts")
      .def(py::init(&engineCosts), py::kw_only(), py::arg("submission_s") = 0.0, py::arg("task_s") = 0.0,
           py::arg("bundled_message_s") = 0.0, py::arg("sum") = ComputeCosts());
  const EngineSettings defaults;
  py::class_<EngineSettings>(module, "EngineSettings")
      .def(py::init(&settingsOf), py::kw_only(), py::arg("partition_bytes") = defaults.partitionBytes,
           py::arg("inline_elements") = defaults.inlineElements,
           py::arg("window_bytes") = defaults.windowBytes, py::arg("bundle_bytes") = defaults.bundle.bytes,
           py::arg("bundle_message_bytes") = defaults.bundle.messageBytes,
           py::arg("bundle_linger_s") = std::chrono::duration<double>(defaults.bundle.linger).count(),
           py::arg("priorities") = defaults.priorities);

  py::class_<GradientOutcome>(module, "SimulatedGradient")
      .def_readonly("start_s", &GradientOutcome::start)
      .def_readonly("end_s", &GradientOutcome::end);
  py::class_<RankOutcome>(module, "SimulatedRank")
      .def_readonly("sent_bytes", &RankOutcome::sentBytes)
      .def_readonly("local_bytes", &RankOutcome::localBytes)
      .def_readonly("messages", &RankOutcome::messages)
      .def_readonly("flights", &RankOutcome::flights)
      .def_readonly("cpu_s", &RankOutcome::cpu)
      .def_readonly("computing_s", &RankOutcome::computing)
      .def_readonly("sending_s", &RankOutcome::sending);
  py::class_<StepOutcome>(module, "SimulatedStep")
      .def_readonly("step_s", &StepOutcome::step)
      .def_readonly("backward_s", &StepOutcome::backward)
      .def_readonly("gradients", &StepOutcome::gradients)
      .def_readonly("ranks", &StepOutcome::ranks)
      .def_readonly("events", &StepOutcome::events);

  module.def(
      "simulate_step", &simulate, py::arg("cluster"), py::arg("engine"), py::arg("codecs"),
      py::arg("gradients"), py::kw_only(), py::arg("computations") = std::vector<ComputeCosts>{},
      py::arg("settings") = EngineSettings(), py::arg("backward_threads") = 0, py::arg("backward_s") = 0.0,
      py::arg("symmetric") = false,
      "One synchronisation step. Each gradient: (name, elements, bytes of an element, index of its codec "
      "or -1, topology, partitions or 0, priority, seconds from the start of backward, tensors that travel "
      "as this one, factor of its messages' processor time compared with the links' costs, index of the "
      "earlier gradient whose end releases it or -1, computation before it, computation behind it, "
      "whether a rank's own values travel in 4 bits each). A "
      "computation is (index in `computations` or -1, bytes of the values as float32).");
}

}  // namespace hipress::bindings
