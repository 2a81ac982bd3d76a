// SPDX-License-Identifier: Apache-2.0
#include "core/casync/run/transfers.h"

#include <exception>
#include <memory>
#include <string>
#include <utility>

namespace hipress {
namespace {

MessageTag tagOf(const Operation& operation, const Task& task) {
  return {operation.number(), operation.values().step, task.partition, task.hop};
}

}  // namespace

void Transfers::send(const OperationPointer& operation, TaskIndex index, int priority) {
  const Task& task = operation->task(index);
  const MessageState& message = operation->values().messages[task.message];
  SendRequest request;
  request.peer = task.peer;
  request.tag = tagOf(*operation, task);
  request.header = packHeader(message.header);
  request.payload = message.payload;
  const size_t bytes = message.payload.size();
  if (operation->tensor().partitions()[task.partition].instead) {
    rawMessages_.fetch_add(1, std::memory_order_relaxed);
    rawBytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  request.onSent = [this, operation, index, bytes](const Failure& failure) {
    if (failure) return failSend(*operation, index, failure);
    trace_.record(*operation, operation->task(index), TraceTrack::kSend, 0, operation->started(index), bytes);
    events_.completed(operation, index);
  };
  operation->noteStart(index, 0);
  InlineFunction<void()> onStart;
  if (trace_.recorder() != nullptr)
    onStart = [this, operation, index] { operation->noteStart(index, trace_.now()); };
  queue_.push(priority, std::move(request), std::move(onStart));
}

void Transfers::receive(const OperationPointer& operation, TaskIndex index) {
  const Task& task = operation->task(index);
  RecvRequest request;
  request.peer = task.peer;
  request.tag = tagOf(*operation, task);
  request.onHeader = [this, operation, index](const MessageHeader& header, size_t payloadBytes) {
    operation->noteStart(index, trace_.now());
    return computation_.accept(*operation, operation->task(index), header, payloadBytes);
  };
  request.onReceived = [this, operation, index](const Failure& failure) {
    if (failure) return fail(*operation, index, failure);
    const Task& recv = operation->task(index);
    try {
      computation_.checkReceived(*operation, recv);
    } catch (const Error& error) {
      return fail(*operation, index, std::make_shared<Error>(error));
    }
    trace_.record(*operation, recv, TraceTrack::kReceive, 0, operation->started(index),
                  operation->values().messages[recv.message].payload.size());
    events_.completed(operation, index);
  };
  transport_.recv(std::move(request));
}

Error Transfers::couldNotSend(const std::exception& error) {
  return transportError(std::string("messages could not be sent: ") + error.what());
}

/// Names the tensor, which the transport does not know.
void Transfers::failSend(const Operation& operation, TaskIndex index, const Failure& failure) {
  if (operation.finished()) return;
  if (failure->kind() == ErrorKind::kPeerLost) return fail(operation, index, failure);
  events_.failed({failure->kind(),
                  "send of tensor '" + operation.tensor().spec().name + "' failed: " + failure->what()});
}

void Transfers::fail(const Operation& operation, TaskIndex index, const Failure& failure) {
  if (operation.finished()) return;
  if (failure->kind() != ErrorKind::kPeerLost) return events_.failed(*failure);
  events_.lost(operation.task(index).peer, failure->what());
}

}  // namespace hipress
