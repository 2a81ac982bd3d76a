// SPDX-License-Identifier: Apache-2.0
#include "core/trace/recorder.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <tuple>

#include "core/trace/trace_file.h"

namespace hipress {
namespace {

constexpr const char* kTrackNames[] = {"Q_comp", "Q_commu send", "Q_commu recv", "framework"};
constexpr int kLanesPerTrack = 1000;

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      result += escaped;
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string microseconds(int64_t ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(ns / 1000),
                static_cast<long long>(ns % 1000));
  return text;
}

/// Spans of one track may overlap, because several messages are in flight. Viewers want nested spans in a
/// row: each overlapping span moves to the first free row.
void assignLanes(std::vector<TraceSpan>& spans) {
  std::map<TraceTrack, std::vector<int64_t>> freeAt;
  for (auto& span : spans) {
    if (span.track != TraceTrack::kSend && span.track != TraceTrack::kReceive) continue;
    auto& lanes = freeAt[span.track];
    const auto found =
        std::find_if(lanes.begin(), lanes.end(), [&](int64_t end) { return end <= span.startNs; });
    span.lane = static_cast<int>(found - lanes.begin());
    if (found == lanes.end()) {
      lanes.push_back(span.endNs);
    } else {
      *found = span.endNs;
    }
  }
}

}  // namespace

TraceRecorder::TraceRecorder(int rank, size_t capacity) : rank_(rank), capacity_(capacity) {}

int64_t TraceRecorder::now() {
  using namespace std::chrono;
  static const int64_t offset = duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count() -
                                duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
  return offset + duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

void TraceRecorder::begin() {
  const std::lock_guard lock(mutex_);
  since_ = now();
  spans_.clear();
  names_.clear();
  nameIndex_.clear();
  dropped_ = 0;
}

int TraceRecorder::intern(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto [entry, added] = nameIndex_.emplace(name, static_cast<int>(names_.size()));
  if (added) names_.push_back(name);
  return entry->second;
}

void TraceRecorder::record(const TraceSpan& span) {
  const std::lock_guard lock(mutex_);
  if (span.startNs < since_) return;
  if (spans_.size() < capacity_) {
    spans_.push_back(span);
  } else {
    ++dropped_;
  }
}

std::string TraceRecorder::events() const {
  std::vector<TraceSpan> spans = spans_;
  std::sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.startNs, -a.endNs) < std::tuple(b.startNs, -b.endNs);
  });
  assignLanes(spans);

  const std::string pid = ",\"pid\":" + std::to_string(rank_);
  std::string text = "{\"name\":\"process_name\",\"ph\":\"M\"" + pid + ",\"args\":{\"name\":\"rank " +
                     std::to_string(rank_) + "\",\"dropped_spans\":" + std::to_string(dropped_) + "}}";
  std::map<int, std::string> tracks;
  for (const auto& span : spans) {
    const auto track = static_cast<int>(span.track);
    const int tid = track * kLanesPerTrack + span.lane;
    tracks.emplace(tid, std::string(kTrackNames[track]) + (span.lane ? " " + std::to_string(span.lane) : ""));
    text += ",\n{\"name\":\"" + std::string(span.name) + "\",\"cat\":\"" + kTrackNames[track] +
            "\",\"ph\":\"X\",\"ts\":" + microseconds(span.startNs) +
            ",\"dur\":" + microseconds(span.endNs - span.startNs) + pid + ",\"tid\":" + std::to_string(tid) +
            ",\"args\":{\"bytes\":" + std::to_string(span.bytes);
    if (span.tensor >= 0) text += ",\"tensor\":" + quoted(names_[static_cast<size_t>(span.tensor)]);
    if (span.codec >= 0) text += ",\"codec\":" + quoted(names_[static_cast<size_t>(span.codec)]);
    if (span.partition >= 0) text += ",\"partition\":" + std::to_string(span.partition);
    if (span.peer >= 0) text += ",\"peer\":" + std::to_string(span.peer);
    if (span.step >= 0) text += ",\"step\":" + std::to_string(span.step);
    text += "}}";
  }
  for (const auto& [tid, name] : tracks) {
    text += ",\n{\"name\":\"thread_name\",\"ph\":\"M\"" + pid + ",\"tid\":" + std::to_string(tid) +
            ",\"args\":{\"name\":" + quoted(name) + "}}";
  }
  return text;
}

void TraceRecorder::appendTo(const std::string& path) const {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    text = events();
  }
  addToTraceFile(path, text);
}

}  // namespace hipress
