// SPDX-License-Identifier: Apache-2.0
#include "core/device/operators/device_operators.h"

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <vector>

#include "core/base/error.h"

namespace hipress {
namespace {

constexpr size_t kWord = sizeof(uint32_t);

size_t roundedUp(size_t bytes) {
  return (bytes + kWord - 1) / kWord * kWord;
}

void checkAligned(const void* address, const std::string& what) {
  if (reinterpret_cast<uintptr_t>(address) % kWord != 0) {
    throw invalidArgument(what +
                          " does not begin at a multiple of 4 bytes; pass a copy, for example .clone()");
  }
}

bool missesState(const Codec& codec, std::span<const OperatorState> states) {
  return std::ranges::any_of(
      codec.states(), [&](const auto& state) { return operatorStateValues(state.name, states).empty(); });
}

bool keepsState(std::span<const OperatorState> states) {
  return std::ranges::any_of(states, [](const auto& state) { return !state.values.empty(); });
}

}  // namespace

/// A stream of the framework.
struct DeviceOperators::Lane {
  Lane(std::shared_ptr<Device> owner, void* stream)
      : device(std::move(owner)),
        found(static_cast<uint32_t*>(device->memory()->allocateZeros(kWord))),
        queue(device->makeStreamOn(stream)) {}
  ~Lane() {
    queue.reset();
    device->memory()->free(found);
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const std::shared_ptr<Device> device;
  uint32_t* const found;  ///< On the device: the error of the last decode.
  std::unique_ptr<DeviceStream> queue;
  std::mutex decoding;
};

/// The errors of the device, and words of staging for its reports.
struct DeviceOperators::Reports {
  explicit Reports(std::shared_ptr<Device> owner) : device(std::move(owner)) {}
  ~Reports() {
    for (uint32_t* block : blocks) device->staging()->free(block);
  }
  Reports(const Reports&) = delete;
  Reports& operator=(const Reports&) = delete;

  uint32_t* take() {
    const std::lock_guard lock(mutex);
    if (spare.empty()) {
      constexpr size_t kWords = 256;
      blocks.push_back(static_cast<uint32_t*>(device->staging()->allocate(kWords * kWord)));
      for (size_t i = 0; i < kWords; ++i) spare.push_back(blocks.back() + i);
    }
    uint32_t* const word = spare.back();
    spare.pop_back();
    return word;
  }
  void putBack(uint32_t* word) {
    const std::lock_guard lock(mutex);
    spare.push_back(word);
  }
  void fail(Failure found) {
    const std::lock_guard lock(mutex);
    if (failure == nullptr) failure = std::move(found);
  }

  const std::shared_ptr<Device> device;
  std::mutex mutex;
  std::vector<uint32_t*> blocks;
  std::vector<uint32_t*> spare;
  Failure failure;
};

/// Staging memory of one call. A callback of the device owns it, so that it stays until the device is done.
struct DeviceOperators::Staged {
  Staged(std::shared_ptr<Device> owner, size_t size)
      : device(std::move(owner)), bytes(static_cast<std::byte*>(device->staging()->allocate(size)), size) {}
  ~Staged() { device->staging()->free(bytes.data()); }
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;

  const std::shared_ptr<Device> device;
  const Bytes bytes;
};

DeviceOperators::DeviceOperators(std::shared_ptr<Device> device)
    : device_(std::move(device)), reports_(std::make_shared<Reports>(device_)) {}

DeviceOperators::~DeviceOperators() = default;

size_t DeviceOperators::messageBytes(const Codec& codec, size_t count) const {
  const size_t bytes = codec.maxEncodedBytes(count);
  if (bytes > std::numeric_limits<uint32_t>::max() - kWord - kDeviceMessageEnd) {
    throw unsupported("codec " + std::string(codec.name()) + ": the message of " + std::to_string(count) +
                      " elements could be larger than 4 GiB, which " + device_->name() +
                      " does not encode; encode parts of the gradient");
  }
  return roundedUp(bytes) + kDeviceMessageEnd;
}

size_t DeviceOperators::workspaceFloats(const Codec& codec, size_t count,
                                        std::span<const OperatorState> states) const {
  checkOperatorStates(codec, count, states);
  if (!keepsState(states)) return 0;
  // The new states, and zeros in place of states that the caller does not keep.
  size_t floats = 0;
  size_t longest = 0;
  for (const CodecState& state : codec.states()) {
    floats += state.count(count);
    longest = std::max(longest, state.count(count));
  }
  return floats + (missesState(codec, states) ? longest : 0);
}

std::shared_ptr<DeviceOperators::Lane> DeviceOperators::lane(void* stream) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Lane>& own = lanes_[stream];
  if (own == nullptr) own = std::make_shared<Lane>(device_, stream);
  return own;
}

std::shared_ptr<const DeviceCodec> DeviceOperators::functions(const CodecPointer& codec) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = functions_.find(codec); known != functions_.end()) return known->second;
  }
  // Without the lock: the device may have to compile kernels, which calls Python.
  auto made = device_->codec(codec);
  const std::lock_guard lock(mutex_);
  return functions_.emplace(codec, std::move(made)).first->second;
}

void DeviceOperators::encode(void* stream, const CodecPointer& codec, const DeviceOperatorEncode& call) {
  const size_t count = call.input.size();
  if (call.workspace.size() < workspaceFloats(*codec, count, call.states))
    throw invalidArgument("the workspace of an encode is too small");
  if (call.message.size() != messageBytes(*codec, count))
    throw invalidArgument("the memory of the message does not have its size");
  checkAligned(call.message.data(), "the memory of the message");
  const std::shared_ptr<const DeviceCodec> there = functions(codec);
  const std::shared_ptr<Lane> own = lane(stream);
  // The unused bytes travel with the message: the zeros hide the earlier content of the memory.
  own->queue->fillZeros(call.message);
  if (count == 0) return;
  std::vector<const float*> before;
  std::vector<float*> after;
  if (keepsState(call.states)) {
    std::span<float> zeros = call.workspace;
    for (const CodecState& state : codec->states()) {
      after.push_back(zeros.data());
      zeros = zeros.subspan(state.count(count));
    }
    if (!zeros.empty()) own->queue->fillZeros(std::as_writable_bytes(zeros));
    for (const CodecState& state : codec->states()) {
      const std::span<float> values = operatorStateValues(state.name, call.states);
      before.push_back(values.empty() ? zeros.data() : values.data());
    }
  }
  auto* const result =
      reinterpret_cast<uint32_t*>(call.message.data() + call.message.size() - kDeviceMessageEnd);
  DeviceEncode encode;
  encode.codec = codec.get();
  encode.deviceCodec = there.get();
  encode.input = call.input;
  encode.states = {before, after};
  encode.context = call.context;
  encode.context.scale *= codec->gradientFactor();
  encode.message = call.message.first(call.message.size() - kDeviceMessageEnd);
  encode.result = result;
  own->queue->encode(encode);
  for (size_t i = 0; i < after.size(); ++i) {
    const std::span<float> values = operatorStateValues(codec->states()[i].name, call.states);
    if (!values.empty()) own->queue->copyUnlessZero(result, {after[i], values.size()}, values.data());
  }
  report(*own, there, result + 1, false);
}

void DeviceOperators::decode(void* stream, const CodecPointer& codec, ConstBytes message,
                             std::span<float> output, DecodeMode mode) {
  if (message.size() < kDeviceMessageEnd || message.size() % kWord != 0) {
    throw invalidArgument(
        "the payload has " + std::to_string(message.size()) + " bytes; a message on " + device_->name() +
        " has its payload, zeros up to a multiple of 4 bytes, and 8 bytes more: encode it there");
  }
  checkAligned(message.data(), "the payload");
  const std::shared_ptr<const DeviceCodec> there = functions(codec);
  const std::shared_ptr<Lane> own = lane(stream);
  if (output.empty()) return;
  DeviceDecode decode;
  decode.codec = codec.get();
  decode.deviceCodec = there.get();
  decode.payload = message.first(message.size() - kDeviceMessageEnd);
  decode.payloadBytes =
      reinterpret_cast<const uint32_t*>(message.data() + message.size() - kDeviceMessageEnd);
  decode.output = output;
  decode.mode = mode;
  decode.error = own->found;
  // One at a time, because the next decode on this stream uses the same word.
  const std::lock_guard lock(own->decoding);
  if (mode == DecodeMode::kAssign) {
    // NaN times any value is NaN.
    const void* const all = output.data();
    own->queue->add(DType::kFloat32, std::span(&all, 1), std::numeric_limits<float>::quiet_NaN(),
                    DecodeMode::kAssign, output);
  }
  own->queue->decode(decode);
  report(*own, there, own->found, true);
}

void DeviceOperators::copy(void* stream, std::byte* to, ConstBytes from) {
  lane(stream)->queue->copy(to, from);
}

void DeviceOperators::addHeld(void* stream, DType dtype, const void* values, std::span<const float> held,
                              std::span<float> workspace, void* output) {
  const std::shared_ptr<Lane> own = lane(stream);
  const auto staged = std::make_shared<Staged>(device_, held.size_bytes());
  std::ranges::copy(std::as_bytes(held), staged->bytes.begin());
  own->queue->copyToDevice(std::as_writable_bytes(workspace).data(), staged->bytes);
  // The caller learns of the device's failure from its operation.
  own->queue->whenDone([staged](const Failure&) {});
  own->queue->add(dtype, std::span(&values, 1), 1.0f, DecodeMode::kAccumulate, workspace);
  own->queue->narrow(workspace, dtype, output);
}

void DeviceOperators::read(void* stream, ConstBytes from,
                           std::function<void(const Failure&, ConstBytes)> callback) {
  const std::shared_ptr<Lane> own = lane(stream);
  const auto staged = std::make_shared<Staged>(device_, from.size());
  own->queue->copyToHost(staged->bytes.data(), from);
  own->queue->whenDone(
      [staged, callback = std::move(callback)](const Failure& failure) { callback(failure, staged->bytes); });
}

void DeviceOperators::report(Lane& lane, std::shared_ptr<const DeviceCodec> codec, const uint32_t* word,
                             bool ofDecode) {
  uint32_t* const told = reports_->take();
  lane.queue->copyToHost(reinterpret_cast<std::byte*>(told), std::as_bytes(std::span(word, 1)));
  lane.queue->whenDone(
      [reports = reports_, told, codec = std::move(codec), ofDecode](const Failure& failure) {
        if (failure != nullptr) return reports->fail(failure);
        const uint32_t error = *told;
        reports->putBack(told);
        if (error == 0) return;
        const std::string text = std::string("an earlier ") + (ofDecode ? "decode" : "encode") + " on " +
                                 reports->device->name() + ": " + codec->refusal(error);
        reports->fail(failureOf(ofDecode ? corruptPayload(text) : invalidArgument(text)));
      });
}

void DeviceOperators::raise() {
  Failure found;
  {
    const std::lock_guard lock(reports_->mutex);
    std::swap(found, reports_->failure);
  }
  if (found != nullptr) throw Error(*found);
}

void DeviceOperators::wait(Milliseconds limit) {
  struct End {
    std::mutex mutex;
    std::condition_variable changed;
    size_t open = 0;
  };
  const auto end = std::make_shared<End>();
  std::vector<std::shared_ptr<Lane>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [stream, lane] : lanes_) all.push_back(lane);
  }
  end->open = all.size();
  for (const auto& lane : all) {
    lane->queue->whenDone([end, reports = reports_](const Failure& failure) {
      if (failure != nullptr) reports->fail(failure);
      const std::lock_guard lock(end->mutex);
      --end->open;
      end->changed.notify_all();
    });
  }
  std::unique_lock lock(end->mutex);
  if (!end->changed.wait_for(lock, limit, [&] { return end->open == 0; })) {
    throw Error(ErrorKind::kTimeout, "device " + device_->name() + " has not ended its work within " +
                                         std::to_string(limit.count()) + " ms");
  }
  lock.unlock();
  raise();
}

}  // namespace hipress
