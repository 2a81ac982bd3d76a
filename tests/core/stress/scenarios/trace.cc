// SPDX-License-Identifier: Apache-2.0
//
// Several threads record while the trace is written, and several recorders write one file.
#include "core/trace/recorder.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <string>
#include <vector>

#include "tests/core/stress/scenarios/scenarios.h"
#include "tests/core/stress/world/check.h"
#include "tests/core/stress/world/world.h"

namespace hipress::stress {
namespace {

class TemporaryFile {
 public:
  TemporaryFile() {
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string(folder != nullptr ? folder : "/tmp") + "/hipress-stress-XXXXXX";
    const int fd = ::mkstemp(path_.data());
    CHECK(fd >= 0, path_);
    ::close(fd);
  }
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Checks the array's lines: one event each, with a comma after all but the last. Returns the spans' number.
int spansIn(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  CHECK(lines.size() > 2 && lines.front() == "[" && lines.back() == "]", lines.size());
  int spans = 0;
  for (size_t index = 1; index + 1 < lines.size(); ++index) {
    const bool last = index + 2 == lines.size();
    const std::string& line = lines[index];
    CHECK(line.starts_with("{\"name\":") && line.ends_with(last ? "}" : "},"), index, line);
    spans += line.find("\"ph\":\"X\"") != std::string::npos ? 1 : 0;
  }
  return spans;
}

}  // namespace

void stressTrace(Random& random) {
  constexpr int kThreads = 3;
  constexpr int kEach = 200;
  const TemporaryFile file;
  const size_t capacity = random.among<size_t>({100, 1 << 20});
  std::deque<TraceRecorder> recorders;  // a deque does not move its elements
  for (int rank = 0; rank < 2; ++rank) recorders.emplace_back(rank, capacity);
  const TemporaryFile scratch;
  inThreads(2 * kThreads, [&](int thread) {
    TraceRecorder& recorder = recorders[static_cast<size_t>(thread % 2)];
    for (int number = 0; number < kEach; ++number) {
      TraceSpan span;
      span.name = "encode";
      span.track = static_cast<TraceTrack>(number % 4);
      span.startNs = TraceRecorder::now();
      span.tensor = recorder.intern("layer \"" + std::to_string(number % 5) + "\"\n");
      span.endNs = TraceRecorder::now();
      CHECK(span.endNs >= span.startNs);
      recorder.record(span);
      if (number % 50 == 0) recorder.appendTo(scratch.path());
    }
  });
  inThreads(2, [&](int rank) { recorders[static_cast<size_t>(rank)].appendTo(file.path()); });
  const int recorded = static_cast<int>(std::min<size_t>(kThreads * kEach, capacity));
  CHECK(spansIn(file.path()) == 2 * recorded, spansIn(file.path()), recorded);
  CHECK(spansIn(scratch.path()) > 0);
}

}  // namespace hipress::stress
