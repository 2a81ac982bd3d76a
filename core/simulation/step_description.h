// SPDX-License-Identifier: Apache-2.0
//
// What simulateStep() is asked: a cluster, what everything costs on it, and the gradients of a step.
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

/// Seconds by raw bytes, in one thread and in several that share the work.
struct ComputeCosts {
  std::vector<CostTable> byThreads;  ///< The first: one thread, nothing else computing.
  /// By the number of busy cores, from one: how many times as long each core takes because they share memory.
  std::vector<double> slowdown;

  /// With `threads` of `busy` cores that are in use.
  double seconds(double rawBytes, size_t threads, size_t busy) const;
};

struct CodecCosts {
  ComputeCosts encode;
  ComputeCosts decode;
  ComputeCosts merge;      ///< Decoding and adding to values that were just written.
  CostTable encodedBytes;  ///< By raw bytes.
};

struct LinkDescription {
  double bytesPerSecond = 1e9;  ///< In each direction, both at once.
  double latency = 0;           ///< Seconds, without the processors' work.
  double sendMessage = 0;       ///< Seconds of a processor, per message or bundle,
  double sendByte = 0;          ///< and per byte.
  double receiveMessage = 0;
  double receiveByte = 0;
};

struct ClusterDescription {
  std::vector<int> hosts;     ///< Number of each rank's host, from 0 in the order of the lowest ranks.
  std::vector<int> machines;  ///< By host: the number of the machine whose processors it uses, from 0.
  std::vector<int> cores;     ///< Of each machine.
  LinkDescription network;
  std::map<std::pair<int, int>, LinkDescription> unlike;  ///< From host to host, where it is not `network`.
  LinkDescription sharedMemory;
  bool neighboursRead = true;  ///< Ranks of a host read each other's memory,
  double readByte = 0;         ///< which takes a processor so long.
  int computeThreads = 1;      ///< Of each rank.

  size_t world() const { return hosts.size(); }
};

struct EngineCosts {
  double submission = 0;      ///< Seconds per tensor, of the thread that submits.
  double task = 0;            ///< Per task that goes through a queue.
  double bundledMessage = 0;  ///< Per message in a bundle, sender and receiver each.
  ComputeCosts sum;           ///< Adding raw values to others.
};

/// The settings of CaSync that decide about time; the same as its defaults.
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
  int partitions = 0;  ///< 0: by size, as the engine does.
  int priority = 0;
  double release = 0;  ///< Seconds from the start of backward.
  /// Tensors that travel together as this one: their values are copied together, and the averages back.
  int members = 1;
  /// How many times as long its messages keep processors busy as links say.
  double messageTimes = 1;
};

struct StepDescription {
  ClusterDescription cluster;
  EngineCosts engine;
  EngineSettings settings;
  std::vector<CodecCosts> codecs;
  std::vector<GradientDescription> gradients;
  /// Backward computes on the ranks' processors, with so many threads of each; 0: elsewhere, it is waited
  /// for.
  int backwardThreads = 0;
  double backward = 0;  ///< Seconds, if processors are free.
  /// One rank stands for all: they do the same at the same time. Throws Unsupported where they do not.
  bool symmetric = false;
};

struct GradientOutcome {
  double start = 0;  ///< When its values were there, on the last rank.
  double end = 0;    ///< When the last rank had the average.
};

struct RankOutcome {
  double sentBytes = 0;   ///< To other hosts, headers included.
  double localBytes = 0;  ///< To ranks of its host.
  double messages = 0;    ///< Sent.
  double flights = 0;     ///< Of these, how many went to the transport: a bundle is one.
  double cpu = 0;         ///< Seconds of processors for synchronisation,
  double computing = 0;   ///< of which for encoding, decoding and merging.
  double sending = 0;     ///< Seconds for which its bytes occupied its host's link.
};

struct StepOutcome {
  double step = 0;      ///< From the start of backward until all ranks have all averages.
  double backward = 0;  ///< When the last gradient was there.
  std::vector<GradientOutcome> gradients;
  std::vector<RankOutcome> ranks;  ///< One, if it stands for all.
  uint64_t events = 0;
};

/// Throws InvalidArgument for a description that makes no sense, Unsupported as `symmetric` says.
StepOutcome simulateStep(const StepDescription& description);

}  // namespace hipress
