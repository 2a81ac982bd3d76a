// SPDX-License-Identifier: Apache-2.0
//
// Records the work of each queue over time, and writes it as a Chrome/Perfetto trace: one process per rank,
// one track per queue, one span per primitive.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace hipress {

enum class TraceTrack : uint8_t { kCompute, kSend, kReceive, kFramework };

struct TraceSpan {
  const char* name = "";  ///< A string literal: "encode", "send", ...
  TraceTrack track = TraceTrack::kCompute;
  int lane = 0;         ///< Compute thread. Other tracks get it when the trace is written.
  int64_t startNs = 0;  ///< TraceRecorder::now().
  int64_t endNs = 0;
  int tensor = -1;  ///< TraceRecorder::intern(), or -1.
  int codec = -1;   ///< The codec's text, by TraceRecorder::intern(), or -1.
  int partition = -1;
  int peer = -1;
  int64_t step = -1;
  uint64_t bytes = 0;
};

class TraceRecorder {
 public:
  /// Counts spans beyond `capacity` and drops them, so that a forgotten trace cannot fill the memory.
  explicit TraceRecorder(int rank, size_t capacity = size_t{1} << 20);

  /// Nanoseconds since the epoch. Never goes backwards within a process.
  static int64_t now();

  /// Drops the recorded spans. Spans that began earlier are not recorded any more.
  void begin();
  /// The number of a tensor's or codec's name. Thread-safe, like record().
  int intern(const std::string& name);
  void record(const TraceSpan& span);

  /// Adds this rank's spans to `path`, see addToTraceFile(). Ranks of one machine may share a file.
  void appendTo(const std::string& path) const;

 private:
  std::string events() const;

  const int rank_;
  const size_t capacity_;
  mutable std::mutex mutex_;
  int64_t since_ = 0;
  std::vector<TraceSpan> spans_;
  std::vector<std::string> names_;
  std::map<std::string, int> nameIndex_;
  uint64_t dropped_ = 0;
};

}  // namespace hipress
