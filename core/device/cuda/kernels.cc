// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda/kernels.h"

#include <cstring>
#include <utility>

#include "core/ops/cuda/execution.h"

namespace hipress::cuda {

KernelModule::KernelModule(std::shared_ptr<const Gpu> gpu, const std::string& title, const std::string& image)
    : gpu_(std::move(gpu)) {
  const OnGpu there(*gpu_);
  gpu_->check("cuCtxPushCurrent", there.status());
  if (const Result status = gpu_->driver.moduleLoad(&module_, image.data()); status != kSuccess) {
    throw unsupported(
        gpu_->name() + " does not load the kernels of " + title + ": " + gpu_->driver.errorText(status) +
        "; the driver may be older than NVRTC: install a newer driver, or an nvidia-cuda-nvrtc of "
        "the driver's CUDA version, which nvidia-smi shows");
  }
}

KernelModule::~KernelModule() {
  const OnGpu there(*gpu_);
  if (there.status() == kSuccess) gpu_->driver.moduleUnload(module_);
}

Result KernelModule::find(const char* symbol, DriverFunction* function) const {
  const std::lock_guard lock(mutex_);
  const auto found = functions_.find(std::string_view(symbol));
  if (found != functions_.end()) {
    *function = found->second;
    return kSuccess;
  }
  const Result status = gpu_->driver.moduleFunction(function, module_, symbol);
  if (status == kSuccess) functions_.emplace(symbol, *function);
  return status;
}

Result startKernel(const Driver& driver, DriverStream stream, DriverFunction function, unsigned blocks,
                   const StartTable& table, const void* kernel, size_t bytes) {
  // As large as the kernel's Start, whose size is a multiple of its alignment.
  size_t whole =
      (sizeof(StartTable) + bytes + alignof(StartTable) - 1) / alignof(StartTable) * alignof(StartTable);
  alignas(StartTable) std::byte start[kMostArgumentBytes] = {};
  if (whole > sizeof(start)) return kInvalidValue;
  std::memcpy(start, &table, sizeof(table));
  if (kernel != nullptr) std::memcpy(start + sizeof(table), kernel, bytes);
  void* extra[] = {reinterpret_cast<void*>(kLaunchBuffer), start, reinterpret_cast<void*>(kLaunchBufferBytes),
                   &whole, reinterpret_cast<void*>(kLaunchEnd)};
  return driver.launchKernel(function, blocks, 1, 1, kThreads, 1, 1, 0, stream, nullptr, extra);
}

KernelLauncher::KernelLauncher(const KernelModule& module, DriverStream stream, KernelBatch* batch)
    : Launcher{}, module_(module), stream_(stream), batch_(batch) {
  start = [](const Launcher& launcher, const char* symbol, unsigned blocks, const void* kernel,
             size_t bytes) {
    const auto& self = static_cast<const KernelLauncher&>(launcher);
    if (self.status_ != kSuccess) return;
    DriverFunction function = nullptr;
    self.status_ = self.module_.find(symbol, &function);
    if (self.status_ != kSuccess) return;
    if (self.batch_ != nullptr) return self.batch_->add(function, blocks, kernel, bytes);
    self.status_ = startKernel(self.module_.gpu().driver, self.stream_, function, blocks, {}, kernel, bytes);
  };
}

Kernels::Kernels(std::shared_ptr<const Gpu> gpu, KernelCompiler compiler)
    : gpu_(std::move(gpu)), compiler_(std::move(compiler)) {}

std::shared_ptr<const KernelModule> Kernels::module(const std::string& title, const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = modules_.find(text); found != modules_.end()) return found->second;
  }
  // Without the lock: the compiler may be Python's, and a thread that holds Python's lock may wait for this
  // lock.
  if (compiler_ == nullptr) throw unsupported(gpu_->name() + " has no compiler for the kernels of " + title);
  const std::string image = compiler_(title, text, gpu_->major, gpu_->minor);
  auto loaded = std::make_shared<const KernelModule>(gpu_, title, image);
  const std::lock_guard lock(mutex_);
  // Another thread may have loaded it first.
  return modules_.emplace(text, std::move(loaded)).first->second;
}

}  // namespace hipress::cuda
