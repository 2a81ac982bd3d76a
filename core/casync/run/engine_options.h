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
  Milliseconds timeout{600000};      ///< From submit() until every rank must have done its part.
  Milliseconds stallWarning{60000};  ///< After this time in flight an operation is warned of; 0: never.
  size_t partitionBytes = kFavouredPayloadBytes;  ///< Unless a tensor sets its number of partitions.
  CommunicationOptions communication;
  size_t inlineElements = 16384;  ///< Compute tasks up to this size run where they became ready.
  uint64_t seed = 0;              ///< Of random rounding.
  /// Off: a tensor begins when the one before it, in the order of submission, is done, and is cut into one
  /// partition per rank at most. To measure what overlap is worth; ranks must submit in the same order then.
  bool pipelining = true;
  bool priorities = true;  ///< Off: first come, first served.
  std::vector<int> hosts;  ///< Number of each rank's host; empty: all ranks are on one.
  /// By rank: the process whose memory this rank reads, or 0 (neighbour_memory.h); empty: none.
  std::vector<uint64_t> neighbours;
  std::shared_ptr<TraceRecorder> trace;  ///< Records from the start; nullptr: only after startTrace().
};

}  // namespace hipress
