// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda/kernels.h"

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

KernelLauncher::KernelLauncher(const KernelModule& module, DriverStream stream)
    : Launcher{}, module_(module), stream_(stream) {
  start = [](const Launcher& launcher, const char* symbol, unsigned blocks, const void* kernel,
             size_t bytes) {
    const auto& self = static_cast<const KernelLauncher&>(launcher);
    if (self.status_ != kSuccess) return;
    DriverFunction function = nullptr;
    self.status_ = self.module_.find(symbol, &function);
    if (self.status_ != kSuccess) return;
    void* extra[] = {reinterpret_cast<void*>(kLaunchBuffer), const_cast<void*>(kernel),
                     reinterpret_cast<void*>(kLaunchBufferBytes), &bytes,
                     reinterpret_cast<void*>(kLaunchEnd)};
    self.status_ = self.module_.gpu().driver.launchKernel(function, blocks, 1, 1, kThreads, 1, 1, 0,
                                                          self.stream_, nullptr, extra);
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
