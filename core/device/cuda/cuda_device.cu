// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda/cuda_device.h"

#include <vector>

#include "core/codec/generated_codec.h"
#include "core/device/cuda/builtin_codecs.h"
#include "core/device/cuda/calls.h"
#include "core/device/cuda/codec_functions.h"
#include "core/device/cuda/cuda_stream.h"
#include "core/device/cuda/elements.h"
#include "core/device/cuda_library.h"

namespace hipress::cuda {
namespace {

Error unusable(int ordinal, const std::string& why) {
  return unsupported(deviceName(ordinal) + " cannot be used: " + why);
}

void checkUsable(int ordinal) {
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) {
    throw unusable(ordinal, "CUDA finds no GPU: " + errorText(status) +
                                "; see whether nvidia-smi does, and what CUDA_VISIBLE_DEVICES is");
  }
  if (ordinal < 0 || ordinal >= count) {
    throw unusable(ordinal, "CUDA finds " + std::to_string(count) +
                                " GPUs, numbered from 0; CUDA_VISIBLE_DEVICES may hide others");
  }
  const OnDevice there(ordinal);
  check(ordinal, "cudaSetDevice", there.status());
  if (!hasKernels()) {
    throw unusable(ordinal,
                   "libhipress_cuda has no code for this kind of GPU; build HiPress where it is, with "
                   "--config-settings=cmake.define.CMAKE_CUDA_ARCHITECTURES=native");
  }
}

}  // namespace

CudaDevice::CudaDevice(int ordinal) : ordinal_(ordinal) {
  checkUsable(ordinal);
  memory_ = std::make_shared<CudaMemory>(ordinal);
  staging_ = std::make_shared<CudaStaging>(ordinal);
}

std::string CudaDevice::name() const {
  return deviceName(ordinal_);
}

std::unique_ptr<DeviceStream> CudaDevice::makeStream() {
  return std::make_unique<CudaStream>(shared_from_this(), ordinal_);
}

std::shared_ptr<const DeviceCodec> CudaDevice::codec(const CodecPointer& codec) {
  std::vector<double> params;
  const auto* generated = dynamic_cast<const GeneratedCodec*>(codec.get());
  if (generated != nullptr) params = generated->parameters();
  std::string known;
  for (const CudaCodec* table : builtinCodecs()) {
    known += (known.empty() ? "" : ", ") + std::string(table->name);
    if (table->name != codec->name() || table->params != params.size()) continue;
    return std::make_shared<CodecFunctions>(*table, std::move(params));
  }
  throw unsupported("codec " + codec->signature() + " has no code for " + name() + "; those that do are " +
                    known + ". Choose one of them, or synchronise the tensor on the CPU");
}

std::shared_ptr<void> CudaDevice::eventOn(void* stream) {
  const OnDevice there(ordinal_);
  cudaEvent_t event = nullptr;
  check(ordinal_, "cudaEventCreateWithFlags", cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  std::shared_ptr<void> kept(event, [ordinal = ordinal_](void* ended) {
    const OnDevice device(ordinal);
    cudaEventDestroy(static_cast<cudaEvent_t>(ended));
  });
  check(ordinal_, "cudaEventRecord", cudaEventRecord(event, static_cast<cudaStream_t>(stream)));
  return kept;
}

}  // namespace hipress::cuda

extern "C" __attribute__((visibility("default"))) const hipress::CudaLibrary* hipress_cuda_library() {
  static const hipress::CudaLibrary library{hipress::kCudaLibraryAbi,
                                            [](int ordinal) -> std::shared_ptr<hipress::Device> {
                                              return std::make_shared<hipress::cuda::CudaDevice>(ordinal);
                                            }};
  return &library;
}
