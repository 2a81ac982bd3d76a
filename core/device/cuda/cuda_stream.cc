// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda/cuda_stream.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/codec/summed_encoding.h"
#include "core/device/cuda/codec_functions.h"
#include "core/device/cuda/cuda_stream_shared.h"
#include "core/device/cuda/elements.h"
#include "core/device/cuda/slot_kernels.h"
#include "core/device/cuda/summed_kernels.h"
#include "core/device/stream_codec.h"
#include "core/element/reduce.h"

namespace hipress::cuda {

CudaStream::CudaStream(std::shared_ptr<Device> device, std::shared_ptr<const Gpu> gpu,
                       std::shared_ptr<Kernels> kernels)
    : kernels_(std::move(kernels)), shared_(std::make_shared<Shared>(std::move(device), std::move(gpu))) {
  const Gpu& used = *shared_->gpu;
  const OnGpu there(used);
  used.check("cuCtxPushCurrent", there.status());
  // Non-blocking: the stream waits for given events only, and not for the framework's default stream.
  used.check("cuStreamCreate", used.driver.streamCreate(&shared_->stream, kStreamNonBlocking));
  shared_->owned = true;
}

CudaStream::CudaStream(std::shared_ptr<Device> device, std::shared_ptr<const Gpu> gpu,
                       std::shared_ptr<Kernels> kernels, DriverStream stream)
    : kernels_(std::move(kernels)), shared_(std::make_shared<Shared>(std::move(device), std::move(gpu))) {
  shared_->stream = stream;
}

CudaStream::~CudaStream() {
  close(Milliseconds(0));
}

template <typename Work>
void CudaStream::put(const char* what, Work work) {
  // The lock is held for all calls of one piece of work. Work of other threads comes before or after it, and
  // one piece at a time uses the scratch memory.
  const std::lock_guard lock(shared_->mutex);
  if (shared_->closed || shared_->failure != nullptr) return;
  const OnGpu there(*shared_->gpu);
  if (there.status() != kSuccess) return shared_->fail("cuCtxPushCurrent", there.status());
  const Result status = work();
  if (status != kSuccess) shared_->fail(what, status);
}

template <typename Work>
void CudaStream::putOthers(const char* what, const Work& work) {
  bool goesOn = false;
  put(what, [&] {
    Result status = kSuccess;
    if (shared_->isJoining()) {  // the lines' kernels so far come first, and the rest joins anew
      status = shared_->start(*shared_->batch);
      *shared_->batch = KernelBatch();
      shared_->batch->beginLine();
    }
    goesOn = status == kSuccess;
    return status;
  });
  if (goesOn) work(StreamPlace{shared_->gpu->ordinal, shared_->stream});
}

void CudaStream::waitFor(void* event) {
  put("cuStreamWaitEvent",
      [&] { return shared_->driver.streamWaitEvent(shared_->stream, static_cast<DriverEvent>(event), 0); });
}

void CudaStream::fillZeros(std::span<std::byte> bytes) {
  if (bytes.empty()) return;
  put("filling with zeros", [&] {
    if (shared_->isJoining()) return kInvalidValue;  // it would come before the line's kernels
    return shared_->driver.fillAsync(addressOf(bytes.data()), 0, bytes.size(), shared_->stream);
  });
}

void CudaStream::copy(std::byte* to, std::span<const std::byte> from) {
  if (!isJoining()) return putCopy("a copy", to, from);
  const auto kernels = kernelsOf(copyingKernels());
  put("a copy", [&] {
    const KernelLauncher launcher = shared_->launcher(*kernels);
    copyBytes(to, from, &launcher);
    return launcher.status();
  });
}

void CudaStream::copyToDevice(std::byte* to, std::span<const std::byte> staging) {
  putCopy("a copy to it", to, staging);
}

void CudaStream::copyToHost(std::byte* staging, std::span<const std::byte> from) {
  putCopy("a copy from it", staging, from);
}

void CudaStream::putCopy(const char* what, std::byte* to, std::span<const std::byte> from) {
  if (from.empty()) return;
  put(what, [&] {
    if (shared_->isJoining()) return kInvalidValue;
    return shared_->driver.copyAsync(addressOf(to), addressOf(from.data()), from.size(), shared_->stream);
  });
}

namespace {

CudaEncode encodeOf(const CodecFunctions& codec, std::span<const float> input, const EncodeStates& states,
                    const EncodeContext& context) {
  CudaEncode given{};
  given.params = codec.params();
  given.gradient = input.data();
  given.count = input.size();
  given.before = states.before.empty() ? nullptr : states.before.data();
  given.after = states.after.empty() ? nullptr : states.after.data();
  given.seed = context.seed;
  given.step = context.step;
  given.firstElement = context.firstElement;
  given.tensor = context.tensor;
  given.scale = context.scale;
  return given;
}

/// The bits of an exponent, all of which are set in values that are not finite.
uint64_t exponentOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 0x7ff0000000000000U;
    case DType::kFloat16:
      return 0x7c00U;
    case DType::kBFloat16:
      return 0x7f80U;
    default:
      return 0x7f800000U;
  }
}

/// Whatever other ranks have, the combination with this is not finite.
float poisonOf(StatisticsReduction reduction) {
  if (reduction == StatisticsReduction::kMin) return -std::numeric_limits<float>::infinity();
  return reduction == StatisticsReduction::kMax ? std::numeric_limits<float>::infinity()
                                                : std::numeric_limits<float>::quiet_NaN();
}

}  // namespace

void CudaStream::encode(const DeviceEncode& call) {
  if (const auto* others = dynamic_cast<const StreamCodec*>(call.codec))
    return putOthers("an encode", [&](const StreamPlace& place) { others->encodeOn(place, call); });
  const auto& codec = static_cast<const CodecFunctions&>(*call.deviceCodec);
  put("an encode", [&] {
    CudaEncode given = encodeOf(codec, call.input, call.states, call.context);
    given.message = reinterpret_cast<uint8_t*>(call.message.data());
    given.messageBytes = call.result;
    given.error = call.result + 1;
    const size_t bytes = codec.table().encodeScratchBytes(given.params, given.count);
    if (const Result status = shared_->lend(bytes, &given); status != kSuccess) return status;
    const KernelLauncher launcher = shared_->launcher(codec.kernels());
    codec.table().encode(given, &launcher);
    return launcher.status();
  });
}

void CudaStream::decode(const DeviceDecode& call) {
  if (const auto* others = dynamic_cast<const StreamCodec*>(call.codec))
    return putOthers("a decode", [&](const StreamPlace& place) { others->decodeOn(place, call); });
  const auto& codec = static_cast<const CodecFunctions&>(*call.deviceCodec);
  put("a decode", [&] {
    CudaDecode given{};
    given.params = codec.params();
    given.payload = reinterpret_cast<const uint8_t*>(call.payload.data());
    given.payloadBytes = call.payloadBytes;
    given.capacity = call.payload.size();
    given.output = call.output.data();
    given.count = call.output.size();
    given.accumulate = call.mode == DecodeMode::kAccumulate ? 1 : 0;
    given.error = call.error;
    const size_t bytes = codec.table().decodeScratchBytes(given.params, given.count, given.capacity);
    if (const Result status = shared_->lend(bytes, &given); status != kSuccess) return status;
    const KernelLauncher launcher = shared_->launcher(codec.kernels());
    codec.table().decode(given, &launcher);
    return launcher.status();
  });
}

void CudaStream::sum(const DeviceSum& call) {
  if (dynamic_cast<const StreamCodec*>(call.codec) != nullptr) return DeviceStream::sum(call);
  const auto& codec = static_cast<const CodecFunctions&>(*call.deviceCodec);
  if (codec.table().sum == nullptr) return DeviceStream::sum(call);
  std::vector<Contribution> contributions;
  CudaSum given{};
  for (const DeviceContribution& one : call.contributions) {
    contributions.push_back(
        {one.values, reinterpret_cast<const uint8_t*>(one.payload.data()), one.payloadBytes, one.error});
    given.capacity = std::max(given.capacity, one.payload.size());
  }
  put("a sum of messages", [&] {
    given.params = codec.params();
    given.contributions = contributions.data();
    given.number = contributions.size();
    given.factor = call.factor;
    given.output = call.output.data();
    given.count = call.output.size();
    Result status = kSuccess;
    given.scratch = shared_->scratchOf(codec.table().sumScratchBytes(given.number, given.count), &status);
    if (status != kSuccess) return status;
    const KernelLauncher launcher = shared_->launcher(codec.kernels());
    codec.table().sum(given, &launcher);
    return launcher.status();
  });
}

void CudaStream::makeStatistics(const DeviceSummed& call) {
  const auto& codec = static_cast<const CodecFunctions&>(*call.deviceCodec);
  if (codec.table().statistics == nullptr) return DeviceStream::makeStatistics(call);
  const auto kernels = kernelsOf(summedKernels());
  put("statistics", [&] {
    CudaEncode given = encodeOf(codec, call.input, call.states, call.context);
    given.message = reinterpret_cast<uint8_t*>(call.statistics.data());
    given.messageBytes = call.words + kStatisticsBytes;
    given.error = call.words + kStatisticsError;
    const size_t bytes = codec.table().statisticsScratchBytes(given.params, given.count);
    if (const Result status = shared_->lend(bytes, &given); status != kSuccess) return status;
    const KernelLauncher launcher = shared_->launcher(codec.kernels());
    codec.table().statistics(given, &launcher);
    if (launcher.status() != kSuccess) return launcher.status();
    const KernelLauncher ours = shared_->launcher(*kernels);
    launch(
        &ours, "poison", gridFor(call.statistics.size()),
        Poison{given.messageBytes, static_cast<uint32_t>(call.statistics.size_bytes()),
               poisonOf(call.codec->summed()->reduction()), call.statistics.data(), call.statistics.size()});
    return ours.status();
  });
}

void CudaStream::makeLevels(const DeviceSummed& call) {
  const auto& codec = static_cast<const CodecFunctions&>(*call.deviceCodec);
  const auto kernels = kernelsOf(summedKernels());
  fillZeros(std::as_writable_bytes(std::span(call.words + kNotFinite, 2)));
  put("levels", [&] {
    CudaEncode given = encodeOf(codec, call.input, call.states, call.context);
    given.agreed = reinterpret_cast<const uint8_t*>(call.statistics.data());
    given.agreedBytes = call.statistics.size_bytes();
    given.message = reinterpret_cast<uint8_t*>(call.message.data());
    given.messageBytes = call.words + kLevelsBytes;
    given.error = call.words + kLevelsError;
    const size_t bytes = codec.table().agreedScratchBytes(given.params, given.count, given.agreedBytes);
    if (const Result status = shared_->lend(bytes, &given); status != kSuccess) return status;
    const KernelLauncher launcher = shared_->launcher(codec.kernels());
    codec.table().encodeAgreed(given, &launcher);
    if (launcher.status() != kSuccess) return launcher.status();
    const KernelLauncher ours = shared_->launcher(*kernels);
    launch(&ours, "count_not_finite", gridFor(call.statistics.size()),
           CountNotFinite{call.statistics.data(), call.statistics.size(), call.words + kNotFinite});
    launch(
        &ours, "settle_levels", gridFor(given.count),
        SettleLevels{call.words + kNotFinite, given.messageBytes, static_cast<uint32_t>(call.message.size()),
                     static_cast<int32_t>(call.codec->summed()->mostLevel()),
                     reinterpret_cast<const int8_t*>(given.message) + given.agreedBytes,
                     reinterpret_cast<int8_t*>(call.levels.data()), given.count, call.words + kTooGreat});
    return ours.status();
  });
}

void CudaStream::finishSum(const DeviceSummed& call) {
  const auto kernels = kernelsOf(summedKernels());
  const size_t count = call.result.size();
  copy(call.message.data(), std::as_bytes(call.statistics));
  copy(call.message.data() + call.statistics.size_bytes(), call.levels.first(count));
  decode({call.codec, call.deviceCodec, call.message, nullptr, call.result, DecodeMode::kAssign,
          call.words + kSumError});
  if (call.factor != 1.0) {
    const void* const values = call.result.data();
    combine(Combination::kSum, DType::kFloat32, std::span(&values, 1), count, call.factor,
            call.result.data());
  }
  put("the end of a sum", [&] {
    const KernelLauncher ours = shared_->launcher(*kernels);
    launch(&ours, "settle_sum", gridFor(count),
           SettleSum{call.words + kNotFinite, reinterpret_cast<const int8_t*>(&call.levels.back()),
                     call.result.data(), count, call.words + kSumError, call.words + kKeepsOld, call.gradient,
                     call.verdict, call.refused});
    return ours.status();
  });
}

void CudaStream::combine(Combination combination, DType dtype, std::span<const void* const> contributions,
                         size_t count, double factor, void* output) {
  checkReduction(dtype, contributions, factor);
  // The kernels are compiled before the stream is locked.
  const auto kernels = kernelsOf(mergeKernels(combination, dtype, factor));
  put("a merge", [&] {
    Result status = kSuccess;
    void* scratch = shared_->scratchOf(combineScratchBytes(contributions.size(), count), &status);
    if (status != kSuccess) return status;
    const KernelLauncher launcher = shared_->launcher(*kernels);
    combineInOrder(combination, dtype, contributions, count, factor, output, scratch, &launcher);
    return launcher.status();
  });
}

void CudaStream::add(DType dtype, std::span<const void* const> contributions, float factor, DecodeMode mode,
                     std::span<float> sum) {
  const auto kernels = kernelsOf(conversionKernels(dtype));
  put("a sum", [&] {
    const KernelLauncher launcher = shared_->launcher(*kernels);
    for (const void* values : contributions) {
      cuda::add(dtype, values, factor, mode, sum, &launcher);
      mode = DecodeMode::kAccumulate;
    }
    return launcher.status();
  });
}

void CudaStream::narrow(std::span<const float> values, DType dtype, void* output) {
  const auto kernels = kernelsOf(conversionKernels(dtype));
  put("a conversion", [&] {
    const KernelLauncher launcher = shared_->launcher(*kernels);
    cuda::narrow(values, dtype, output, &launcher);
    return launcher.status();
  });
}

void CudaStream::flagNotFinite(DType dtype, const void* values, size_t count, uint32_t* flag) {
  const auto kernels = kernelsOf(conversionKernels(dtype));
  put("a search for values that are not finite", [&] {
    const KernelLauncher launcher = shared_->launcher(*kernels);
    cuda::flagNotFinite(dtype, values, count, flag, &launcher);
    return launcher.status();
  });
}

void CudaStream::copyUnlessZero(const uint32_t* word, std::span<const float> values, float* to) {
  const auto kernels = kernelsOf(copyingKernels());
  put("a copy of states", [&] {
    const KernelLauncher launcher = shared_->launcher(*kernels);
    cuda::copyUnlessZero(word, values, to, &launcher);
    return launcher.status();
  });
}

void CudaStream::rescale(std::span<const std::span<float>> values, const float* now, const float* before) {
  const auto kernels = kernelsOf(copyingKernels());
  put("a change of the states' unit", [&] {
    const KernelLauncher launcher = shared_->launcher(*kernels);
    cuda::rescale(values, now, before, &launcher);
    return launcher.status();
  });
}

template <typename Kernel, typename Entry>
void CudaStream::putSlots(const char* symbol, Kernel kernel, std::span<const Entry> entries) {
  if (entries.empty()) return;
  const auto kernels = kernelsOf(slotKernels());
  static_assert(std::has_unique_object_representations_v<Entry>);
  put("work on slots", [&] {
    if (shared_->isJoining()) return kInvalidValue;  // the list would come before the line's kernels
    const auto bytes = std::as_bytes(entries);
    Result status = kSuccess;
    const std::byte* const there = shared_->tablesOf({bytes.begin(), bytes.end()}, &status);
    if (status != kSuccess) return status;
    kernel.entries = reinterpret_cast<const Entry*>(there);
    const auto number = static_cast<unsigned>(entries.size());
    unsigned blocks = number * kEntryBlocks;
    if constexpr (requires { kernel.number; }) {
      kernel.number = number;
      blocks = 1;
    }
    const KernelLauncher launcher = shared_->launcher(*kernels);
    launch(&launcher, symbol, blocks, kernel);
    return launcher.status();
  });
}

void CudaStream::findNonzero(std::span<const SlotSpan> values) {
  putSlots("find_nonzero", FindNonzero{}, values);
}

void CudaStream::findNotFinite(DType dtype, std::span<const SlotSpan> values) {
  putSlots("find_not_finite", FindNotFinite{{}, exponentOf(dtype)}, values);
}

void CudaStream::fillUnlessZero(std::span<const SlotFill> averages, uint32_t* verdict) {
  putSlots("fill_unless_zero", FillUnlessZero{{}, verdict}, averages);
}

void CudaStream::seal(std::span<const SlotSeal> messages, uint32_t* verdict) {
  putSlots("seal_slots", SealSlots{{}, 0, verdict}, messages);
}

void CudaStream::check(std::span<const SlotCheck> messages, uint32_t* verdict) {
  putSlots("check_slots", CheckSlots{{}, 0, verdict}, messages);
}

void CudaStream::restore(std::span<const SlotRestore> states, const uint32_t* verdict) {
  putSlots("restore_slots", RestoreSlots{{}, verdict}, states);
}

bool CudaStream::isJoining() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->isJoining();
}

void CudaStream::together(std::span<const std::function<void()>> lines) {
  if (lines.size() > kMostJoined) {
    together(lines.first(kMostJoined));
    return together(lines.subspan(kMostJoined));
  }
  KernelBatch batch;
  bool joins = false;
  {
    const std::lock_guard lock(shared_->mutex);
    // A single line has nothing to join, and another thread may have a batch of its own.
    if (lines.size() > 1 && shared_->batch == nullptr) {
      shared_->batch = &batch;
      shared_->joiner = std::this_thread::get_id();
      shared_->usedBytes = 0;
    }
    joins = shared_->batch == &batch;
  }
  if (!joins) return DeviceStream::together(lines);
  const auto leave = [this](KernelBatch*) {
    const std::lock_guard lock(shared_->mutex);
    shared_->batch = nullptr;
  };
  // Also if a line throws: then nothing starts.
  const std::unique_ptr<KernelBatch, decltype(leave)> joining(&batch, leave);
  for (size_t number = 0; number < lines.size(); ++number) {
    shared_->line = number;
    batch.beginLine();
    lines[number]();
  }
  put("work of many tensors", [&] { return shared_->start(batch); });
}

std::shared_ptr<const KernelModule> CudaStream::kernelsOf(const ElementKernels& wanted) {
  return kernels_->module(wanted.title, wanted.text);
}

/// Returns a function that returns when the GPU has done all work so far. The caller has the mutex.
CompletionThread::Reached CudaStream::reachedNow() {
  const OnGpu there(*shared_->gpu);
  return [shared = shared_, event = shared_->record()] { return shared->wait(event); };
}

void CudaStream::whenDone(EndCallback callback) {
  {
    const std::lock_guard lock(shared_->mutex);
    // Inside the lock, so that callbacks come in the order of events.
    if (!shared_->closed) return completions_.push(reachedNow(), std::move(callback));
  }
  callback(
      std::make_shared<Error>(ErrorKind::kNotInitialized, "device " + shared_->gpu->name() + " was closed"));
}

size_t CudaStream::scratchBytes() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->heldBytes;
}

bool CudaStream::close(Milliseconds limit) {
  {
    const std::lock_guard lock(shared_->mutex);
    // The end also waits for work without a callback.
    if (!shared_->closed) completions_.push(reachedNow(), [](const Failure&) {});
    shared_->closed = true;
  }
  return completions_.stop(limit);
}

}  // namespace hipress::cuda
