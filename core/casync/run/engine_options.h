// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/time.h"
#include "core/casync/send/communication_queue.h"
#include "core/trace/recorder.h"
#include "core/transport/transport.h"

namespace hipress {

struct EngineOptions {
  int computeThreads = 1;
  Milliseconds timeout{600000};      ///< Time from submit() within which every rank has to do its part.
  Milliseconds stallWarning{60000};  ///< The engine warns of an operation in flight for longer; 0: never.
  size_t partitionBytes = kFavouredPayloadBytes;  ///< Default, if a tensor sets no number of partitions.
  CommunicationOptions communication;
  size_t inlineElements = 16384;  ///< Smaller tasks run on the thread that made them ready.
  uint64_t seed = 0;              ///< Seed of random rounding.
  /// Off, to measure the value of overlap: a tensor starts when the tensor submitted before it is done, and
  /// has at most one partition per rank. Ranks must then submit in the same order.
  bool pipelining = true;
  bool priorities = true;  ///< Off: tasks and messages go in the order of arrival.
  std::vector<int> hosts;  ///< The host number of each rank; empty: all ranks are on one host.
  /// For each rank: the process whose memory this rank can read, or 0 (neighbour_memory.h); empty: none.
  std::vector<uint64_t> neighbours;
  std::shared_ptr<TraceRecorder> trace;  ///< Records from the start; nullptr: after startTrace() only.
};

}  // namespace hipress
