// SPDX-License-Identifier: Apache-2.0
#include "core/casync/fail/deadlines.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

namespace hipress {
namespace {

/// How long the messages of a departed rank, and the report of its failure, may still be on their
/// way.
constexpr Milliseconds kGoneGrace{2000};

/// How much longer than the deadline a rank waits for each message that must come before the missing one, and
/// for the answer of a rank that it is about to name.
constexpr Milliseconds kGrace{1000};

/// The tag of a rank's question to another rank. Tensor numbers start at 1, so tensor 0 is free: with step 0
/// it is the tag of a failure, with step k of question k.
MessageTag questionTag(uint32_t number) {
  return {0, number, 0, 0};
}

std::string seconds(Milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", static_cast<double>(time.count()) / 1000.0);
  return text;
}

}  // namespace

Deadlines::Deadlines(Milliseconds timeout, Milliseconds stallWarning, Transport& transport,
                     FailureDetection& failures, const OperationsInFlight& operations)
    : timeout_(timeout),
      grace_(std::min(kGrace, timeout / 8)),
      transport_(transport),
      failures_(failures),
      operations_(operations),
      stallWarning_(transport.rank(), stallWarning, timeout, operations),
      questionsTo_(static_cast<size_t>(transport.worldSize())) {}

void Deadlines::begin() {
  for (int peer = 0; peer < transport_.worldSize(); ++peer) {
    if (peer != transport_.rank()) listenTo(peer, 1);
  }
}

void Deadlines::check(const AwaitedOperation& submitted) {
  const auto carrier = submitted.carrier();
  const AwaitedOperation& operation = carrier == nullptr ? submitted : *carrier;
  if (operation.finished()) return;  // the carrier has ended and its result is being copied
  const auto now = Clock::now();
  // Only an operation without progress ends the job.
  if (now >= operation.submitted() + kGoneGrace) {
    if (const auto departed = failures_.departedBefore(now - kGoneGrace, operation.among())) {
      return failures_.fail({ErrorKind::kPeerLost, *departed + " while tensor '" + operation.wait().name +
                                                       "' was being synchronised"});
    }
  }
  const auto deadline = operation.submitted() + timeout_;
  if (now < deadline) return stallWarning_.check(operation, now);

  const Wait wait = operation.wait();
  if (now < deadline + grace_ * wait.depth) return;
  Clock::time_point asked{};
  if (!wait.late.empty() && isNew(wait, now, &asked)) {
    ask(wait);
  } else if (now >= asked + grace_) {
    failures_.fail(timeoutError(wait));
  }
}

bool Deadlines::isNew(const Wait& wait, Clock::time_point now, Clock::time_point* asked) {
  const MutexLock lock(mutex_);
  const auto [first, isNew] = asked_.try_emplace({wait.tensor, wait.step}, now);
  *asked = first->second;
  return isNew;
}

void Deadlines::ask(const Wait& wait) {
  const auto question =
      std::make_shared<Question>(Question{wait.tensor, wait.step, static_cast<uint32_t>(wait.depth)});
  for (const int peer : wait.late) {
    SendRequest request;
    request.peer = peer;
    {
      const MutexLock lock(mutex_);
      request.tag = questionTag(++questionsTo_[static_cast<size_t>(peer)]);
    }
    request.payload = std::as_bytes(std::span(question.get(), 1));
    request.onSent = [question](const Failure&) {};
    transport_.send(std::move(request));
  }
}

void Deadlines::listenTo(int peer, uint32_t number) {
  const auto question = std::make_shared<Question>();
  RecvRequest request;
  request.peer = peer;
  request.tag = questionTag(number);
  request.onHeader = [question](const MessageHeader&, size_t bytes) {
    if (bytes != sizeof(Question)) throw corruptPayload("a peer's question has another size than it should");
    return std::as_writable_bytes(std::span(question.get(), 1));
  };
  request.onReceived = [this, peer, number, question](const Failure& failure) {
    if (failure) return;  // this rank itself has ended
    listenTo(peer, number + 1);
    answer(*question);
  };
  transport_.recv(std::move(request));
}

/// A rank that does not wait, or waits only for a short time, sends no answer: it is the late rank.
void Deadlines::answer(const Question& question) {
  const bool submitted = operations_.hasSubmitted(question.tensor, question.step);
  const auto overdue = Clock::now() - timeout_;
  auto oldest = Clock::time_point::max();
  Wait longest;
  for (const auto& operation : operations_.unfinished()) {
    if (operation->submitted() > overdue || operation->submitted() >= oldest) continue;
    Wait wait = operation->wait();
    // In the same step, the rank whose missing message depends on fewer others knows the cause better.
    const bool sameStep = wait.tensor == question.tensor && wait.step == question.step;
    if (submitted && !(sameStep && wait.depth < static_cast<int>(question.depth))) continue;
    if (wait.late.empty()) continue;
    oldest = operation->submitted();
    longest = std::move(wait);
  }
  if (!longest.late.empty()) failures_.fail(timeoutError(longest));
}

Error Deadlines::timeoutError(const Wait& wait) const {
  const std::string advice =
      wait.missing.empty()
          ? "The late rank may be stopped or slow, or may not have submitted the tensor. A longer deadline "
            "is set "
            "with HIPRESS_TIMEOUT or init(timeout=...)"
          : "Submit every tensor of a group in each step; submit a tensor without values as absent";
  return {ErrorKind::kTimeout, "tensor '" + wait.name + "' (step " + std::to_string(wait.step) +
                                   ") was not synchronised within " + seconds(timeout_) + ": rank " +
                                   std::to_string(transport_.rank()) + " " + causeOf(wait) + ". " + advice};
}

}  // namespace hipress
