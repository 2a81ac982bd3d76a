// SPDX-License-Identifier: Apache-2.0
#include "core/casync/run/engine.h"

#include <algorithm>
#include <utility>

namespace hipress {
namespace {

constexpr Milliseconds kLingerAfterFailure{1000};

/// A waiting thread reads its deadline this often, because a rank that leaves changes the deadline.
constexpr Milliseconds kLookInterval{250};

EngineOptions checked(EngineOptions options) {
  options.timeout = clampTimeout(options.timeout);
  options.stallWarning = clampTimeout(options.stallWarning);
  return options;
}

TensorPlan planOf(const EngineOptions& options, const Transport& transport) {
  /// For tensors that are cut only to share out their aggregation, and not to overlap the steps of the work.
  constexpr size_t kUnlimitedPartition = size_t{1} << 50;
  return {transport.rank(), transport.worldSize(),
          options.pipelining ? options.partitionBytes : kUnlimitedPartition, options.hosts, options.seed};
}

}  // namespace

Engine::Engine(std::shared_ptr<ControlPlane> control, std::unique_ptr<Transport> transport,
               EngineOptions options)
    : options_(checked(std::move(options))),
      control_(std::move(control)),
      trace_(options_.trace, transport->rank()),
      table_(planOf(options_, *transport), states_, pool_, job_,
             [this](const OperationPointer& operation) { scheduler_.leave(operation); }),
      transport_(std::move(transport)),
      agreement_(*control_, options_.timeout, table_, states_),
      failures_(*control_, *transport_, job_, table_),
      deadlines_(options_.timeout, options_.stallWarning, *transport_, failures_, table_),
      scheduler_(
          options_, *transport_,
          [this](const auto& service, const auto& question, Milliseconds timeout) {
            return control_->ask(service, question, timeout);
          },
          pool_, *this, trace_),
      joining_(*control_, table_,
               {[this](TensorSpec spec) { return announce(std::move(spec)); },
                [this](TensorHandle tensor, Submission&& absent) { submit(tensor, std::move(absent)); },
                [this](const Error& error) { failures_.fail(error); }}),
      deadlineWatch_([this] { return checkUnattended(); }) {
  failures_.begin([this](const ControlNotice& notice) { joining_.hear(notice); });
  deadlines_.begin();
}

Engine::~Engine() {
  shutdown(Milliseconds(0));
}

TensorHandle Engine::announce(TensorSpec spec, std::function<void(uint32_t)> onNumber) {
  spec.check(rank(), worldSize());
  table_.throwIfEnded("declaring tensor '" + spec.name + "'");
  // Without pipelining operations run in the order in which ranks submit them, so none may wait alone.
  if (!options_.pipelining) {
    const TensorHandle number = agreement_.declare({std::move(spec)}).front();
    if (onNumber) onNumber(number);
    return number;
  }
  std::vector<Declaration> tensors;
  const ProcessSet among = spec.among;
  std::vector<TensorHandle> announced = table_.announce(std::move(spec), tensors);
  const TensorHandle handle = announced.front();
  const auto onDeclared = [this, announced = std::move(announced), onNumber = std::move(onNumber)](
                              const Failure& failure, const std::vector<uint32_t>& numbers) {
    if (failure) return table_.refuse(announced, failure);
    if (onNumber) onNumber(numbers.front());
    try {
      if (const auto begun = table_.number(announced, numbers)) run(*begun, false);
    } catch (const Error& error) {
      failures_.fail(error);
    }
  };
  control_->declareSoon(std::move(tensors), among, onDeclared);
  return handle;
}

void Engine::announceRefusal(const std::string& name, const std::string& reason, const ProcessSet& among) {
  try {
    // A specification that no call has. Ranks that refuse for the same reason agree on it.
    control_->declareSoon({{name, "a call that it has refused (" + reason + ")", true}}, among,
                          [](const Failure&, const std::vector<uint32_t>&) {});
  } catch (const Error&) {
    // The job has ended, so no rank waits.
  }
}

OperationHandle Engine::submit(TensorHandle tensor, Submission submission) {
  return start(tensor, std::move(submission))->handle();
}

/// `atOnce`: without pipelining, too, the operation starts now, because a running operation waits for it.
OperationPointer Engine::start(TensorHandle tensor, Submission&& submission, bool atOnce) {
  const TensorTable::Begun begun = table_.begin(tensor, std::move(submission));
  if (begun.needsWatch) deadlineWatch_.begin();
  if (!begun.awaitsNumber) run(begun, atOnce);
  return begun.operation;
}

/// Starts an operation whose tensor has its number.
void Engine::run(const TensorTable::Begun& begun, bool atOnce) {
  if (begun.linked != nullptr) {
    begun.linked->start(*this);
  } else if (begun.group == nullptr) {
    atOnce ? scheduler_.startAtOnce(begun.operation) : scheduler_.start(begun.operation);
  } else {
    const auto copied = [this, step = begun.group](const Failure& failure) {
      if (failure) failures_.fail(step->copyError(rank(), *failure));
      if (step->isLastCopied()) startGroup(step);
    };
    begun.group->copyIn(begun.member, begun.operation->values(), copied);
  }
  if (!begun.operation->isInner()) joining_.started(begun.operation);
}

int Engine::join() {
  table_.throwIfEnded("join()");
  for (const OperationPointer& operation : table_.ofCallers()) {
    while (!operation->finished()) {
      operation->waitUntil(Clock::now() + kLookInterval);
      if (!operation->finished()) deadlines_.check(*operation);
    }
  }
  return joining_.join();
}

void Engine::startGroup(const std::shared_ptr<GroupStep>& step) {
  Submission together = GroupStep::submission(step);
  together.onDone = [this, step](const Failure& failure, bool absent) { endGroup(step, failure, absent); };
  try {
    step->setCarrier(start(step->carrierTensor(), std::move(together)));
  } catch (const Error& error) {
    // The members' submissions have succeeded. Their waits throw this error, like every later failure.
    endGroup(step, std::make_shared<Error>(error), false);
  }
}

void Engine::endGroup(const std::shared_ptr<GroupStep>& step, const Failure& failure, bool absent) {
  const std::vector<OperationPointer> operations = step->takeOperations();
  for (size_t member = 0; member < operations.size(); ++member) {
    const OperationPointer& operation = operations[member];
    if (failure || absent) {
      operation->endInGroup(failure != nullptr, absent);
      table_.end(operation, failure);
      continue;
    }
    step->copyOut(member, operation->values(), [this, step, operation](const Failure& copied) {
      if (copied) failures_.fail(step->copyError(rank(), *copied));
      operation->endInGroup(copied != nullptr, false);
      table_.end(operation, copied);
    });
  }
}

bool Engine::poll(OperationHandle handle) {
  const OperationPointer operation = table_.find(handle);
  if (operation == nullptr) return true;
  if (!operation->finished()) deadlines_.check(*operation);
  return operation->finished();
}

bool Engine::wait(OperationHandle handle, Milliseconds slice, bool* absent) {
  const OperationPointer operation = table_.find(handle);
  if (operation == nullptr) {
    job_.throwIfEnded();
    throw invalidArgument("there is no operation " + std::to_string(handle) +
                          "; it may have been waited for already");
  }
  auto now = Clock::now();
  const auto until = now + clampTimeout(slice);
  while (!operation->finished()) {
    operation->waitUntil(std::min(until, now + kLookInterval));
    if (operation->finished()) break;
    deadlines_.check(*operation);
    now = Clock::now();
    if (now >= until) return false;
  }
  table_.forget(operation);
  operation->endWaiting();
  if (const Failure failure = operation->failure()) throw *failure;
  if (absent != nullptr) *absent = operation->absent();
  return true;
}

/// Checks the deadlines of operations that no caller waits for. Returns whether there are such operations.
bool Engine::checkUnattended() {
  const auto unattended = table_.unattended();
  for (const OperationPointer& operation : unattended) {
    if (!operation->finished()) deadlines_.check(*operation);
  }
  return !unattended.empty();
}

void Engine::shutdown(Milliseconds linger, const std::string& reason) {
  std::call_once(stopping_, [&] { stop(clampTimeout(linger), reason); });
}

void Engine::stop(Milliseconds linger, const std::string& reason) {
  // After a failure no rank can use messages that are on their way. Only reports of the failure may come.
  if (job_.stop()) linger = std::min(linger, kLingerAfterFailure);
  try {
    // Other ranks may still receive messages of this rank: its transport stays up until they have left, too.
    control_->leave(linger, reason);
  } catch (const Error&) {
    // Another caller has closed the control plane. The lingering ends, and the engine still stops: no thread
    // that uses this engine may outlive it.
  }
  failures_.stop();
  deadlineWatch_.stop();
  scheduler_.stop();
  transport_->close();
  control_->close();
  table_.devices().close();
  table_.clear();
}

}  // namespace hipress
