// SPDX-License-Identifier: Apache-2.0
#include "core/casync/fail/stall_warning.h"

#include <algorithm>
#include <map>
#include <vector>

#include "core/base/warning.h"

namespace hipress {
namespace {

/// The number of tensors that the warning names for each cause.
constexpr size_t kNamed = 5;

std::string wholeSeconds(Clock::duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

std::string listed(const std::vector<std::string>& names) {
  std::string text = names.size() == 1 ? "tensor " : "tensors ";
  for (size_t index = 0; index < std::min(kNamed, names.size()); ++index)
    text += (index > 0 ? ", " : "") + names[index];
  return names.size() > kNamed ? text + " and " + std::to_string(names.size() - kNamed) + " more" : text;
}

template <typename Ranks>
std::string listedRanks(const Ranks& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank);
  return text;
}

}  // namespace

std::string causeOf(const Wait& wait) {
  if (wait.unnumbered)
    return "has no answer from rank 0, which it asked for the tensor's number: rank 0's process is stopped "
           "or overloaded, or the network to it is cut";
  if (!wait.missing.empty())
    return "has not submitted " + wait.missing + ", which travel with it as group '" + wait.group + "'";
  if (!wait.device.empty()) return "waits for " + wait.device;
  if (!wait.late.empty())
    return (wait.depth == 0 ? "got nothing from " : "got no aggregate from ") + listedRanks(wait.late);
  if (!wait.unsent.empty()) return "could not send its contribution to " + listedRanks(wait.unsent);
  return "has everything that it needs from other ranks, and computes";
}

void StallWarning::check(const AwaitedOperation& operation, Clock::time_point now) {
  if (interval_ <= Milliseconds(0) || now < operation.submitted() + interval_) return;
  {
    const MutexLock lock(mutex_);
    if (now < warned_ + interval_) return;
    warned_ = now;
  }
  auto stalled = operations_.unfinished();
  std::erase_if(stalled, [&](const auto& each) { return now < each->submitted() + interval_; });
  std::ranges::sort(stalled, {}, [](const auto& each) { return each->submitted(); });
  std::map<std::string, std::vector<std::string>> tensorsByCause;
  for (const auto& each : stalled) {
    const auto carrier = each->carrier();
    if (each->finished() || (carrier && carrier->finished())) continue;
    const Wait own = each->wait();
    tensorsByCause[causeOf(carrier ? carrier->wait() : own)].push_back("'" + own.name + "' (step " +
                                                                       std::to_string(own.step) + ")");
  }
  std::string causes;
  for (const auto& [cause, tensors] : tensorsByCause)
    causes += (causes.empty() ? "" : "; it ") + cause + ": " + listed(tensors);
  if (causes.empty()) return;
  warn(rank_, "has waited for " + wholeSeconds(now - stalled.front()->submitted()) + ": it " + causes +
                  ". A rank may evaluate, save, load or compile for long, wait for another rank, be "
                  "stopped, or not submit these tensors. The wait ends with Timeout after " +
                  wholeSeconds(timeout_) +
                  " (HIPRESS_TIMEOUT); HIPRESS_STALL_WARNING sets how often this warning comes");
}

}  // namespace hipress
