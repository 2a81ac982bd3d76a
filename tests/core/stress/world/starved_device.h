// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "core/device/device.h"

namespace hipress::stress {

/// A device whose streams have no memory to note one callback, and then have memory again.
class StarvedDevice final : public Device {
 public:
  /// `after`: the number of callbacks before the one.
  StarvedDevice(std::shared_ptr<Device> inner, int after) : inner_(std::move(inner)), left_(after) {}
  std::string name() const override { return inner_->name(); }
  std::shared_ptr<Memory> memory() override { return inner_->memory(); }
  std::shared_ptr<Memory> staging() override { return inner_->staging(); }
  std::unique_ptr<DeviceStream> makeStream() override {
    return std::make_unique<Stream>(inner_->makeStream(), left_);
  }
  std::unique_ptr<DeviceStream> makeStreamOn(void*) override { return makeStream(); }
  std::shared_ptr<const DeviceCodec> codec(const CodecPointer& codec) override {
    return inner_->codec(codec);
  }
  std::shared_ptr<void> eventOn(void* stream) override { return inner_->eventOn(stream); }

 private:
  class Stream final : public DeviceStream {
   public:
    Stream(std::unique_ptr<DeviceStream> inner, std::atomic<int>& left)
        : inner_(std::move(inner)), left_(left) {}
    void waitFor(void* event) override { inner_->waitFor(event); }
    void fillZeros(std::span<std::byte> bytes) override { inner_->fillZeros(bytes); }
    void copy(std::byte* to, std::span<const std::byte> from) override { inner_->copy(to, from); }
    void copyToDevice(std::byte* to, std::span<const std::byte> from) override {
      inner_->copyToDevice(to, from);
    }
    void copyToHost(std::byte* to, std::span<const std::byte> from) override { inner_->copyToHost(to, from); }
    void encode(const DeviceEncode& call) override { inner_->encode(call); }
    void decode(const DeviceDecode& call) override { inner_->decode(call); }
    void combine(Combination how, DType dtype, std::span<const void* const> contributions, size_t count,
                 double factor, void* output) override {
      inner_->combine(how, dtype, contributions, count, factor, output);
    }
    void add(DType dtype, std::span<const void* const> contributions, float factor, DecodeMode mode,
             std::span<float> sum) override {
      inner_->add(dtype, contributions, factor, mode, sum);
    }
    void narrow(std::span<const float> values, DType dtype, void* output) override {
      inner_->narrow(values, dtype, output);
    }
    void copyUnlessZero(const uint32_t* word, std::span<const float> values, float* to) override {
      inner_->copyUnlessZero(word, values, to);
    }
    void flagNotFinite(DType dtype, const void* values, size_t count, uint32_t* flag) override {
      inner_->flagNotFinite(dtype, values, count, flag);
    }
    void whenDone(EndCallback callback) override {
      if (left_.fetch_sub(1) == 0) throw std::bad_alloc();
      inner_->whenDone(std::move(callback));
    }
    size_t scratchBytes() const override { return inner_->scratchBytes(); }
    bool close(Milliseconds limit) override { return inner_->close(limit); }

   private:
    const std::unique_ptr<DeviceStream> inner_;
    std::atomic<int>& left_;
  };

  const std::shared_ptr<Device> inner_;
  std::atomic<int> left_;
};

}  // namespace hipress::stress
