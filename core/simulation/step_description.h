// SPDX-License-Identifier: Apache-2.0
//
// Input and output of simulateStep(): a cluster, the costs of work on it, and the gradients of a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/casync/send/link_queue.h"
#include "core/simulation/cost_table.h"
#include "core/transport/transport.h"

namespace hipress {

/// Seconds by raw bytes, for one thread and for several threads that share the work.
struct ComputeCosts {
  std::vector<CostTable> byThreads;  ///< The first entry: one thread, and no other thread computes.
  /// Index: the number of busy cores less one. Factor of each core's time, because the cores share memory.
  std::vector<double> slowdown;

  /// The time with `threads` of `busy` cores in use.
  double seconds(double rawBytes, size_t threads, size_t busy) const;
};

struct CodecCosts {
  ComputeCosts encode;
  ComputeCosts decode;
  ComputeCosts merge;      ///< Decodes, and adds to values that were just written.
  CostTable encodedBytes;  ///< By raw bytes.
  /// An aggregator encodes its own contribution, too (codec/merged_decoded.h).
  bool mergesDecoded = false;
};

/// A computation of each rank for a whole tensor, on the rank's compute queue.
struct WholeWork {
  int costs = -1;    ///< Index in StepDescription::computations; -1: there is nothing to compute.
  double bytes = 0;  ///< Of the values that it computes with, as float32.
};

struct LinkDescription {
  double bytesPerSecond = 1e9;  ///< in each direction, both at once
  double latency = 0;           ///< seconds, without the processors' work
  double sendMessage = 0;       ///< processor seconds per message or bundle
  double sendByte = 0;          ///< processor seconds per byte
  double receiveMessage = 0;
  double receiveByte = 0;
};

struct ClusterDescription {
  std::vector<int> hosts;     ///< The host number of each rank, from 0 in the order of the lowest ranks.
  std::vector<int> machines;  ///< By host: the number of the machine whose processors it uses, from 0.
  std::vector<int> cores;     ///< By machine.
  LinkDescription network;
  std::map<std::pair<int, int>, LinkDescription> unlike;  ///< From host to host, if not `network`.
  LinkDescription sharedMemory;
  bool neighboursRead = true;  ///< Ranks of a host read each other's memory.
  double readByte = 0;         ///< Processor seconds per byte that a rank reads so.
  int computeThreads = 1;      ///< Of each rank.

  size_t world() const { return hosts.size(); }
};

struct EngineCosts {
  double submission = 0;      ///< Seconds per tensor, on the thread that submits.
  double task = 0;            ///< Seconds per task that passes a queue.
  double bundledMessage = 0;  ///< Seconds per message in a bundle, for sender and receiver each.
  ComputeCosts sum;           ///< Adding raw values to others.
};

/// The settings of CaSync that affect the time, with CaSync's defaults.
struct EngineSettings {
  size_t partitionBytes = kFavouredPayloadBytes;
  size_t inlineElements = 16384;
  size_t windowBytes = size_t{16} << 20;
  BundleOptions bundle;
  bool priorities = true;
};

struct GradientDescription {
  std::string name;
  uint64_t elements = 0;
  int elementBytes = 4;
  int codec = -1;  ///< Index in StepDescription::codecs; -1: not compressed.
  std::string topology = "ps";
  int partitions = 0;  ///< 0: by size, like the engine.
  int priority = 0;
  double release = 0;  ///< Seconds from the start of backward.
  /// Tensors that travel as this one. The engine copies their values together, and the averages back.
  int members = 1;
  /// Factor of the processor time of its messages, compared with its links' costs.
  double messageTimes = 1;
  /// Index of an earlier gradient. On each rank the end of that one, in place of backward, releases this one.
  int after = -1;
  WholeWork before;       ///< Makes the values of this gradient, when it is released. Then it starts.
  WholeWork behind;       ///< Follows its end. Only then the rank has the result.
  bool packsOwn = false;  ///< Tensor::packsOwn(): a rank's own values travel in half as many bytes.
};

struct StepDescription {
  ClusterDescription cluster;
  EngineCosts engine;
  EngineSettings settings;
  std::vector<CodecCosts> codecs;
  std::vector<ComputeCosts> computations;
  std::vector<GradientDescription> gradients;
  /// Number of threads on each rank's processors in which backward computes. 0: backward computes elsewhere,
  /// and the rank only waits for it.
  int backwardThreads = 0;
  double backward = 0;  ///< Seconds, if processors are free.
  /// One rank stands for all, because all do the same at the same time. Throws Unsupported if they do not.
  bool symmetric = false;
};

struct GradientOutcome {
  double start = 0;  ///< The time at which the last rank had the values.
  double end = 0;    ///< The time at which the last rank had the average.
};

struct RankOutcome {
  double sentBytes = 0;   ///< To other hosts, with headers.
  double localBytes = 0;  ///< To ranks of the same host.
  double messages = 0;    ///< Messages that the rank sent.
  double flights = 0;     ///< Flights of these messages; a bundle is one flight.
  double cpu = 0;         ///< Processor seconds for synchronisation.
  double computing = 0;   ///< The part of `cpu` for encode, decode and merge.
  double sending = 0;     ///< Seconds for which its bytes occupied the link of its host.
};

struct StepOutcome {
  double step = 0;      ///< From the start of backward until all ranks have all averages.
  double backward = 0;  ///< The time of the last gradient's release.
  std::vector<GradientOutcome> gradients;
  std::vector<RankOutcome> ranks;  ///< One entry, if one rank stands for all.
  uint64_t events = 0;
};

/// Throws InvalidArgument for an impossible description, and Unsupported as `symmetric` says.
StepOutcome simulateStep(const StepDescription& description);

}  // namespace hipress
