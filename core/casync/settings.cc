// SPDX-License-Identifier: Apache-2.0
#include "core/casync/settings.h"

#include <string>

namespace hipress {
namespace {

std::string asText(const RoundOptions& rounds) {
  return std::string("coordinator=") + (rounds.coordinator == Coordinator::kRank0 ? "rank0" : "none") +
         ", rounds=" + (rounds.used() ? "1" : "0");
}

}  // namespace

void compareSettings(ControlPlane& control, const EngineOptions& options) {
  const auto settings = control.allgather("settings", asText(options.communication.rounds), options.timeout);
  for (size_t rank = 1; rank < settings.size(); ++rank) {
    if (settings[rank] == settings[0]) continue;
    throw Error(ErrorKind::kMismatch,
                "rank 0 runs with " + settings[0] + ", rank " + std::to_string(rank) + " with " +
                    settings[rank] +
                    ": give HIPRESS_ROUNDS and HIPRESS_COORDINATOR, or the arguments of "
                    "init(), alike on all ranks");
  }
}

}  // namespace hipress
