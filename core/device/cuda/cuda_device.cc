// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda/cuda_device.h"

#include <utility>
#include <vector>

#include "core/codec/generated_codec.h"
#include "core/device/cuda/codec_functions.h"
#include "core/device/cuda/cuda_stream.h"
#include "core/device/cuda/elements.h"
#include "core/device/stream_codec.h"

namespace hipress::cuda {
namespace {

/// A codec without kernels of ours.
class OthersFunctions final : public DeviceCodec {
 public:
  OthersFunctions(CodecPointer codec, const StreamCodec& functions)
      : codec_(std::move(codec)), functions_(functions) {}

  std::string refusal(uint32_t error) const override {
    return "codec " + std::string(codec_->name()) + ": " + functions_.refusal(error);
  }

 private:
  const CodecPointer codec_;
  const StreamCodec& functions_;  // the same object
};

}  // namespace

CudaDevice::CudaDevice(std::shared_ptr<const Gpu> gpu, KernelCompiler compiler)
    : gpu_(std::move(gpu)),
      kernels_(std::make_shared<Kernels>(gpu_, std::move(compiler))),
      memory_(std::make_shared<CudaMemory>(gpu_)),
      staging_(std::make_shared<CudaStaging>(gpu_)) {
  // A missing compiler of kernels, or an unable driver, is an error here and not in the first step.
  const ElementKernels first = mergeKernels(Combination::kSum, DType::kFloat32, 1.0);
  kernels_->module(first.title, first.text);
}

std::unique_ptr<DeviceStream> CudaDevice::makeStream() {
  return std::make_unique<CudaStream>(shared_from_this(), gpu_, kernels_);
}

std::unique_ptr<DeviceStream> CudaDevice::makeStreamOn(void* stream) {
  return std::make_unique<CudaStream>(shared_from_this(), gpu_, kernels_, static_cast<DriverStream>(stream));
}

std::shared_ptr<const DeviceCodec> CudaDevice::codec(const CodecPointer& codec) {
  if (const auto* functions = dynamic_cast<const StreamCodec*>(codec.get()))
    return std::make_shared<OthersFunctions>(codec, *functions);
  std::vector<double> params;
  const auto* generated = dynamic_cast<const GeneratedCodec*>(codec.get());
  if (generated != nullptr) params = generated->parameters();
  const CudaCodec* table = codec->kernels();
  if (table == nullptr || table->params != params.size()) {
    throw unsupported(
        "codec " + codec->signature() + " has no code for " + name() +
        "; codecs of CompLL programs and fp16 have code. Choose one of them, or synchronise the "
        "tensor on the CPU");
  }
  auto kernels = kernels_->module("codec " + std::string(codec->name()), table->kernels);
  return std::make_shared<CodecFunctions>(*table, std::move(params), std::move(kernels));
}

std::shared_ptr<void> CudaDevice::eventOn(void* stream) {
  const OnGpu there(*gpu_);
  gpu_->check("cuCtxPushCurrent", there.status());
  DriverEvent event = nullptr;
  gpu_->check("cuEventCreate", gpu_->driver.eventCreate(&event, kEventDisableTiming));
  std::shared_ptr<void> kept(event, [gpu = gpu_](void* ended) {
    const OnGpu device(*gpu);
    gpu->driver.eventDestroy(static_cast<DriverEvent>(ended));
  });
  gpu_->check("cuEventRecord", gpu_->driver.eventRecord(event, static_cast<DriverStream>(stream)));
  return kept;
}

std::shared_ptr<Device> makeCudaDevice(int ordinal, KernelCompiler compiler, const std::string& driver) {
  return std::make_shared<CudaDevice>(openGpu(driver, ordinal), std::move(compiler));
}

}  // namespace hipress::cuda
