// SPDX-License-Identifier: Apache-2.0
#include "core/slots/slot_run.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "core/codec/wire/wire_header.h"

namespace hipress {
namespace {

/// Elements of the slots whose work is joined: it needs memory for each of them at the same time.
constexpr size_t kMostTogether = size_t{1} << 24;

}  // namespace

void SlotExecutor::Run::findZeros() {
  if (!call_.changed.keepsStates() && !shared_->keepsStates) return;
  stream_.fillZeros(std::as_writable_bytes(shared_->words->anew()));
  std::vector<SlotSpan> asked;
  for (size_t slot = 0; slot < shared_->program->slots().size(); ++slot) {
    const SlotPlace at = place(slot);
    if (keepsStates(at.slot())) asked.push_back(at.spanOf(at.nonzero()));
  }
  stream_.findNonzero(asked);
}

void SlotExecutor::Run::receive(std::span<const SlotTask> arrivals) {
  std::vector<SlotCheck> come;
  for (const auto& [slot, task] : arrivals) {
    const SlotPlace at = place(slot);
    come.push_back(at.checkOf(at.graph().tasks()[task]));
  }
  if (!come.empty()) stream_.check(come, call_.changed.verdict());
}

void SlotExecutor::Run::work(std::span<const SlotTask> tasks) {
  std::vector<std::function<void()>> lines;
  size_t elements = 0;
  const auto start = [&] {
    queue_.begin();
    stream_.together(lines);
    lines.clear();
    elements = 0;
  };
  while (!tasks.empty()) {
    const size_t slot = tasks.front().slot;
    const auto behind = std::ranges::find_if(tasks, [&](const SlotTask& task) { return task.slot != slot; });
    const auto own = tasks.first(static_cast<size_t>(behind - tasks.begin()));
    const size_t count = place(slot).count();
    if (elements + count > kMostTogether) start();
    lines.emplace_back([this, own] {
      queue_.beginLine();
      for (const SlotTask& task : own) work(task);
    });
    elements += count;
    tasks = tasks.subspan(own.size());
  }
  start();
}

void SlotExecutor::Run::work(const SlotTask& work) {
  const SlotPlace at = place(work.slot);
  const Task& task = at.graph().tasks()[work.task];
  if (task.primitive == Primitive::kEncode) return encode(at, task);
  if (at.count() == 0) return;
  task.primitive == Primitive::kMerge ? merge(at, task) : decode(at, task);
}

void SlotExecutor::Run::encode(const SlotPlace& at, const Task& task) {
  const bool isSent = at.graph().messages()[task.message].sent;
  const bool raw = at.isRaw(task.message);
  const Bytes payload = at.payloadOf(task.message);
  if (isSent || task.encodeAs == EncodeAs::kResult) {
    std::byte* const header = isSent ? payload.data() - kWireHeaderBytes : nullptr;
    sealed_.push_back(at.sealOf(header, raw, payload.size(), task.encodeAs));
  }
  if (at.count() == 0) return;
  if (!raw) return encodeValues(at, task);
  // The tensor has raw sums and results, too.
  if (task.from.front().kind == Operand::Kind::kOutput) look(at);
  if (isSent) stream_.copy(payload.data(), at.elements());
}

void SlotExecutor::Run::encodeValues(const SlotPlace& at, const Task& task) {
  const Slot& slot = at.slot();
  const bool byWorker = task.encodeAs == EncodeAs::kContribution;
  const CodecPointer& codec = byWorker ? slot.codec : slot.aggregateCodec;
  // The residual of a partial sum has the unit of gradients, like that of a contribution.
  const std::string& key = task.encodeAs == EncodeAs::kResult ? slot.aggregatorKey : slot.workerKey;
  std::shared_ptr<SlotStates> states;
  if (!codec->states().empty()) {
    states = call_.states.at(key);
    states->keep(codec->states(), slot.count);
  }
  const Operand& from = task.from.front();
  const bool ofInput = from.kind == Operand::Kind::kInput;
  float factor = ofInput ? slot.codec->gradientFactor() : 1.0F;  // sums have it already
  if (task.encodeAs == EncodeAs::kResult) factor *= static_cast<float>(call_.factor);
  DeviceEncode call;
  call.codec = codec.get();
  call.deviceCodec = &shared_->codec(codec);
  call.input = ofInput ? at.own(1.0F) : at.sumOf(from.index);
  if (states != nullptr) call.states = states->lists();
  call.context = encodeContext(slot, call_.step, task.encodeAs, factor);
  call.message = at.payloadOf(task.message);
  call.result = at.encoded(task.encodeAs);
  stream_.encode(call);
  if (states == nullptr) return;
  // If the encoding fails, the average is not finite, and the device puts the states back.
  states->exchange();
  call_.changed.add(key, std::move(states), at.absent(), shared_);
}

void SlotExecutor::Run::merge(const SlotPlace& at, const Task& task) {
  const bool toOutput = task.mergeAs == MergeAs::kOutput;
  if (at.slot().raw) {
    mergeRaw(at, task);
  } else if (!mergePlain(at, task)) {
    std::vector<DeviceContribution> contributions;
    for (const Operand& operand : task.from) contributions.push_back(at.contribution(operand));
    toOutput ? sumToTensor(at, contributions) : sum(at, contributions, 1.0F, at.sumOf(task.sum));
  }
  if (!toOutput) return;
  sealed_.push_back(at.sealOf(nullptr, true, 0, EncodeAs::kResult));
  filled_.push_back(at.fillOf(at.absent(), kSlotAbsent));
  looked_[at.slot().dtype].push_back(at.spanOf(call_.changed.verdict()));
}

/// In the tensor's own type. A thread reads the element of each contribution before it writes that of the
/// sum.
void SlotExecutor::Run::mergeRaw(const SlotPlace& at, const Task& task) {
  std::vector<const void*> contributions;
  for (const Operand& operand : task.from) {
    const bool isReceived =
        operand.kind == Operand::Kind::kMessage && at.graph().messages()[operand.index].received;
    contributions.push_back(isReceived ? at.payloadOf(operand.index).data() : at.elements().data());
  }
  const double factor = task.mergeAs == MergeAs::kPartialSum ? 1.0 : rawFactor(at.slot(), call_.factor);
  stream_.combine(Combination::kSum, at.slot().dtype, contributions, at.count(), factor,
                  at.elements().data());
}

bool SlotExecutor::Run::mergePlain(const SlotPlace& at, const Task& task) {
  std::vector<const void*> contributions;
  for (const Operand& operand : task.from) {
    if (operand.kind == Operand::Kind::kInput)
      contributions.push_back(at.elements().data());
    else if (operand.kind == Operand::Kind::kMessage && at.isRaw(operand.index))
      contributions.push_back(at.payloadOf(operand.index).data());
  }
  if (task.mergeAs != MergeAs::kPartialSum || contributions.size() != task.from.size()) return false;
  stream_.add(at.slot().dtype, contributions, at.slot().codec->gradientFactor(), DecodeMode::kAssign,
              at.sumOf(task.sum));
  return true;
}

void SlotExecutor::Run::sum(const SlotPlace& at, std::span<const DeviceContribution> contributions,
                            float factor, std::span<float> output) {
  DeviceSum call;
  call.codec = at.slot().codec.get();
  call.deviceCodec = &shared_->codec(at.slot().codec);
  call.contributions = contributions;
  call.factor = factor;
  call.output = output;
  stream_.sum(call);
}

void SlotExecutor::Run::sumToTensor(const SlotPlace& at, std::span<const DeviceContribution> contributions) {
  const auto factor = static_cast<float>(call_.factor);
  const bool areMessages =
      std::ranges::all_of(contributions, [](const DeviceContribution& one) { return one.values == nullptr; });
  // Where one contribution is added after the other, the tensor's own values must stay until their turn.
  const bool inPlace = areMessages || shared_->codec(at.slot().codec).sumsAtOnce();
  if (at.slot().dtype == DType::kFloat32 && inPlace) return sum(at, contributions, factor, at.floats());
  sum(at, contributions, factor, queue_.sum(at.count()));
  write(at, queue_.sum(at.count()));
}

void SlotExecutor::Run::decode(const SlotPlace& at, const Task& task) {
  const bool isReceived = at.graph().messages()[task.message].received;
  const bool raw = at.isRaw(task.message);
  if (!raw)
    decodeValues(at, task.message);
  else if (isReceived)
    stream_.copy(at.elements().data(), at.payloadOf(task.message));
  filled_.push_back(at.fillOf(at.absent(), kSlotAbsent));
  const bool isNarrow = narrows(at.slot().dtype);
  if (isReceived) {
    if (raw) return;
    filled_.push_back(at.fillOf(at.decoding(at.senderOf(task.message))));
    if (isNarrow) looked_[at.slot().dtype].push_back(at.spanOf(call_.changed.verdict()));
    return;
  }
  // An encoding of states says itself whether its values are finite.
  if (raw || isNarrow || at.slot().aggregateCodec->states().empty()) look(at);
}

void SlotExecutor::Run::decodeValues(const SlotPlace& at, MessageIndex message) {
  const bool inPlace = at.slot().dtype == DType::kFloat32;
  const DeviceContribution one = at.messageOf(message);
  DeviceDecode call;
  call.codec = at.slot().codec.get();
  call.deviceCodec = &shared_->codec(at.slot().codec);
  call.payload = one.payload;
  call.payloadBytes = one.payloadBytes;
  call.output = inPlace ? at.floats() : queue_.sum(at.count());
  call.error = one.error;
  stream_.decode(call);
  if (!inPlace) write(at, call.output);
}

void SlotExecutor::Run::look(const SlotPlace& at) {
  if (call_.changed.keepsStates()) told_[at.slot().dtype].push_back(at.spanOf(at.notFinite()));
}

void SlotExecutor::Run::write(const SlotPlace& at, std::span<const float> values) {
  if (at.slot().dtype != DType::kFloat32)
    return stream_.narrow(values, at.slot().dtype, at.elements().data());
  stream_.copy(at.elements().data(), std::as_bytes(values));
}

void SlotExecutor::Run::seal() {
  for (const auto& [dtype, spans] : told_) stream_.findNotFinite(dtype, spans);
  if (!sealed_.empty()) stream_.seal(sealed_, call_.changed.verdict());
}

void SlotExecutor::Run::copy(std::span<const SlotCopy> copies) {
  std::vector<std::function<void()>> lines;
  for (const SlotCopy& one : copies)
    lines.emplace_back([this, &one] {
      stream_.copy(call_.arena.data() + one.to, call_.arena.subspan(one.from, one.bytes));
    });
  stream_.together(lines);
}

void SlotExecutor::Run::conclude() {
  if (!filled_.empty()) stream_.fillUnlessZero(filled_, call_.changed.verdict());
  if (!call_.changed.keepsStates()) return;
  for (const auto& [dtype, spans] : looked_) stream_.findNotFinite(dtype, spans);
}

}  // namespace hipress
