// SPDX-License-Identifier: Apache-2.0
//
// The paper's schedule: rank 0 gives each rank the receiver of its next round, so that no two ranks send to
// one rank. A thread asks for the next round while the current round is sent. Messages do not wait for a slow
// rank 0: a round that rank 0 has not planned in time begins without its answer. If rank 0 is gone, all
// further rounds do.
#pragma once

#include <condition_variable>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/casync/send/schedules/rounds.h"

namespace hipress {

class CoordinatedSchedule final : public RoundSchedule {
 public:
  CoordinatedSchedule(size_t roundBytes, SchedulePlace place);
  ~CoordinatedSchedule() override;
  CoordinatedSchedule(const CoordinatedSchedule&) = delete;
  CoordinatedSchedule& operator=(const CoordinatedSchedule&) = delete;

  void stop() override;

 private:
  void wantsPlan() override { changed_.notify_one(); }
  void plan();

  bool stopped_ = false;  // guarded by mutex_
  std::condition_variable changed_;
  std::thread planner_;
};

}  // namespace hipress
