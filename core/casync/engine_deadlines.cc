// SPDX-License-Identifier: Apache-2.0
//
// Every wait has a deadline, and its error names the rank that is late, not one that waits for it.
//   Within a step whoever waits for what needs the fewest messages speaks first.
//   Ranks may be a step apart. Whoever is about to name a rank asks it before: if that waits itself, for
//   longer than the deadline, it says for whom, and that becomes the error of all ranks.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "core/casync/engine.h"
#include "core/casync/tensor_group.h"

namespace hipress {
namespace {

/// What a rank that is gone had sent may still be on its way for this long, and so may the news why it went.
constexpr Milliseconds kGoneGrace{2000};

/// How much longer than the deadline a rank waits for each message that must come before the one it waits
/// for, and for the answer of a rank that it is about to name.
constexpr Milliseconds kGrace{1000};

/// Tensor numbers start at 1, and 0 with step 0 is a failure: 0 with step k is the k-th question of one rank
/// to another.
MessageTag questionTag(uint32_t number) {
  return {0, number, 0, 0};
}

bool isWaitedFor(const Operation& operation, size_t task) {
  return operation.tensor->graph.tasks()[task].primitive == Primitive::kRecv &&
         !operation.complete[task].load(std::memory_order_relaxed);
}

/// The smallest depth of a message that has not come; 1 if all have.
int nearestWaitedFor(const Operation& operation) {
  const auto& tasks = operation.tensor->graph.tasks();
  int nearest = std::numeric_limits<int>::max();
  for (size_t index = 0; index < tasks.size(); ++index) {
    if (isWaitedFor(operation, index)) nearest = std::min<int>(nearest, tasks[index].depth);
  }
  return nearest == std::numeric_limits<int>::max() ? 1 : nearest;
}

/// Of whom the nearest messages have not come.
std::set<int> lateFor(const Operation& operation) {
  const auto& tasks = operation.tensor->graph.tasks();
  const int nearest = nearestWaitedFor(operation);
  std::set<int> peers;
  for (size_t index = 0; index < tasks.size(); ++index) {
    if (isWaitedFor(operation, index) && tasks[index].depth == nearest) peers.insert(tasks[index].peer);
  }
  return peers;
}

std::string seconds(Milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", static_cast<double>(time.count()) / 1000.0);
  return text;
}

}  // namespace

void Engine::checkDeadline(const OperationPointer& submitted) {
  const OperationPointer operation = travelling(submitted);
  if (operation->finished()) return;  // a group's, whose results are being copied
  const auto now = Clock::now();
  std::string departed;
  {
    const std::lock_guard lock(mutex_);
    // Only an operation that gets nowhere is given up.
    if (!gone_.empty() && now >= std::max(goneAt_, operation->submitted) + kGoneGrace)
      departed = gone_.front().how;
  }
  if (!departed.empty()) {
    return failWith(Error(ErrorKind::kPeerLost, departed + " while tensor '" + operation->tensor->spec.name +
                                                    "' was being synchronised"),
                    true);
  }
  const auto deadline = operation->submitted + options_.timeout;
  if (now < deadline) return;

  // Whoever waits for what needs the fewest messages knows best which rank is late: it speaks first.
  const Milliseconds grace = std::min(kGrace, options_.timeout / 8);
  if (now < deadline + grace * nearestWaitedFor(*operation)) return;
  const std::set<int> late = lateFor(*operation);
  bool asks = false;
  {
    const std::lock_guard lock(mutex_);
    asks = operation->asked == Clock::time_point{} && !late.empty();
    if (asks) operation->asked = now;
    if (!asks && now < operation->asked + grace) return;
  }
  if (asks) {
    ask(*operation, late);
  } else {
    failWith(timeoutError(*operation), true);
  }
}

void Engine::ask(const Operation& operation, const std::set<int>& peers) {
  const Question question{operation.tensor->id, operation.step,
                          static_cast<uint32_t>(nearestWaitedFor(operation))};
  const auto payload = std::make_shared<Question>(question);
  for (const int peer : peers) {
    SendRequest request;
    request.peer = peer;
    {
      const std::lock_guard lock(mutex_);
      request.tag = questionTag(++questionsTo_[static_cast<size_t>(peer)]);
    }
    request.payload = std::as_bytes(std::span(payload.get(), 1));
    request.onSent = [payload](const Failure&) {};
    transport_->send(std::move(request));
  }
}

void Engine::listenForQuestions(int peer, uint32_t number) {
  const auto question = std::make_shared<Question>();
  RecvRequest request;
  request.peer = peer;
  request.tag = questionTag(number);
  request.onHeader = [question](const MessageHeader&, size_t bytes) {
    if (bytes != sizeof(Question)) throw corruptPayload("a peer's question has another size than it should");
    return std::as_writable_bytes(std::span(question.get(), 1));
  };
  request.onReceived = [this, peer, number, question](const Failure& failure) {
    if (failure) return;  // this rank's own end
    listenForQuestions(peer, number + 1);
    answer(*question);
  };
  transport_->recv(std::move(request));
}

void Engine::answer(const Question& question) {
  OperationPointer oldest;
  {
    const std::lock_guard lock(mutex_);
    const auto found = tensors_.find(question.tensor);
    const bool submitted = found != tensors_.end() && found->second.nextStep > question.step;
    for (const auto& [handle, operation] : operations_) {
      // Within the same step whoever waits for what needs fewer messages knows better.
      const bool sameStep = operation->tensor->id == question.tensor && operation->step == question.step;
      if (submitted && !(sameStep && nearestWaitedFor(*operation) < static_cast<int>(question.depth)))
        continue;
      if (operation->finished() || (oldest && oldest->submitted <= operation->submitted)) continue;
      if (Clock::now() >= operation->submitted + options_.timeout && !lateFor(*operation).empty())
        oldest = operation;
    }
  }
  // A rank that does not wait, or not for long, answers nothing: it is the one that is late.
  if (oldest) failWith(timeoutError(*oldest), true);
}

/// Of operations that nobody waits for; whether there are any.
bool Engine::watchDeadlines() {
  std::vector<OperationPointer> unattended;
  {
    const std::lock_guard lock(mutex_);
    if (unattended_ == 0) return false;
    for (const auto& [handle, operation] : operations_) {
      if (operation->onDone) unattended.push_back(operation);
    }
  }
  for (const auto& operation : unattended) {
    if (!operation->finished()) checkDeadline(operation);
  }
  return true;
}

Error Engine::timeoutError(const Operation& operation) const {
  const auto& tasks = operation.tensor->graph.tasks();
  const int nearest = nearestWaitedFor(operation);
  std::string late;
  for (const int peer : lateFor(operation))
    late += (late.empty() ? "rank " : ", rank ") + std::to_string(peer);
  const std::string what = "tensor '" + operation.tensor->spec.name + "' (step " +
                           std::to_string(operation.step) + ") was not synchronised within " +
                           seconds(options_.timeout) + ": rank " + std::to_string(rank_);
  const std::string advice =
      ". The rank may be stopped, slow, or may not have submitted the tensor; a longer deadline is set by "
      "HIPRESS_TIMEOUT or init(timeout=...)";
  if (const auto group = groupOf(operation.tensor->id)) {
    const std::lock_guard lock(mutex_);
    return {ErrorKind::kTimeout, what + " has not submitted " + group->missing() +
                                     ", which travel with it as group '" + group->name +
                                     "'. Submit every tensor of a group in each step, as absent where "
                                     "there are no values"};
  }
  if (const std::string working = workOfDevice(operation); !working.empty())
    return {ErrorKind::kTimeout, what + " waits for " + working + advice};
  if (!late.empty()) {
    return {ErrorKind::kTimeout,
            what + (nearest == 0 ? " got nothing from " : " got no aggregate from ") + late + advice};
  }
  std::string unsent;
  for (size_t index = 0; index < tasks.size(); ++index) {
    if (tasks[index].primitive != Primitive::kSend ||
        operation.complete[index].load(std::memory_order_relaxed)) {
      continue;
    }
    const std::string peer = "rank " + std::to_string(tasks[index].peer);
    if (unsent.find(peer) == std::string::npos) unsent += (unsent.empty() ? "" : ", ") + peer;
  }
  return {ErrorKind::kTimeout, what + " could not send its part to " + unsent + advice};
}

}  // namespace hipress
