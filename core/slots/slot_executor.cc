// SPDX-License-Identifier: Apache-2.0
#include "core/slots/slot_executor.h"

#include <utility>

#include "core/slots/slot_run.h"

namespace hipress {

SlotExecutor::Shared::Shared(std::shared_ptr<const SlotProgram> runs, std::shared_ptr<Device> owner)
    : program(std::move(runs)), device(std::move(owner)) {
  for (const Slot& slot : program->slots()) {
    if (slot.raw) continue;
    keepsStates = keepsStates || hipress::keepsStates(slot);
    for (const CodecPointer& codec : {slot.codec, slot.aggregateCodec}) {
      if (codec != nullptr && !functions.contains(codec.get()))
        functions.emplace(codec.get(), device->codec(codec));
    }
  }
  words = std::make_unique<const SlotWords>(program->slots().size(), program->ranks().world, device);
}

SlotExecutor::SlotExecutor(std::shared_ptr<const SlotProgram> program, std::shared_ptr<Device> device)
    : shared_(std::make_shared<Shared>(std::move(program), std::move(device))) {}

const SlotProgram& SlotExecutor::program() const {
  return *shared_->program;
}

void SlotExecutor::prepare(DeviceStream& stream, Bytes arena) const {
  program().checkArena(arena.size());
  stream.fillZeros(arena);
}

void SlotExecutor::run(size_t number, SlotQueue& queue, const SlotCall& call) const {
  program().checkTensors(call.tensors);
  program().checkArena(call.arena.size());
  Run run(shared_, queue, call);
  if (number == 0) run.findZeros();
  run.receive(program().arrivals(number));
  run.work(program().work(number));
  run.seal();
  run.copy(program().copies(number));
  run.conclude();
}

void SlotExecutor::check(DeviceStream& stream, const SlotChanges& changed) const {
  shared_->words->tell(stream);
  stream.whenDone([shared = shared_, verdict = changed.memory()](const Failure& failure) {
    if (failure != nullptr) return shared->fail(*failure);
    shared->readWords();
  });
}

void SlotExecutor::raise() const {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->failure != nullptr) throw Error(*shared_->failure);
}

}  // namespace hipress
