// SPDX-License-Identifier: Apache-2.0
//
// Kernels on one GPU: compiled at their first use, loaded once, started by their symbols.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/device/cuda/gpu.h"
#include "core/device/cuda/kernel_batch.h"
#include "core/ops/cuda/launcher.h"

namespace hipress::cuda {

/// Compiles the text of kernels for a compute capability, and returns the image for the driver. `title` is
/// for errors: "codec onebit". Any thread calls it, without a lock. Throws Error.
using KernelCompiler =
    std::function<std::string(const std::string& title, const std::string& text, int major, int minor)>;

/// The loaded code of one text.
class KernelModule {
 public:
  KernelModule(std::shared_ptr<const Gpu> gpu, const std::string& title, const std::string& image);
  ~KernelModule();
  KernelModule(const KernelModule&) = delete;
  KernelModule& operator=(const KernelModule&) = delete;

  /// Thread-safe. Returns kNotFound for an unknown kernel.
  Result find(const char* symbol, DriverFunction* function) const;
  const Gpu& gpu() const { return *gpu_; }

 private:
  const std::shared_ptr<const Gpu> gpu_;
  DriverModule module_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::map<std::string, DriverFunction, std::less<>> functions_;
};

/// Starts a kernel that gets `table` and, behind it, the object, if there is one.
Result startKernel(const Driver& driver, DriverStream stream, DriverFunction function, unsigned blocks,
                   const StartTable& table, const void* kernel, size_t bytes);

/// Starts the kernels of one module on one stream, or adds their starts to `batch`, and keeps the first
/// error. The GPU must be the current one of the thread.
class KernelLauncher final : public Launcher {
 public:
  KernelLauncher(const KernelModule& module, DriverStream stream, KernelBatch* batch = nullptr);
  Result status() const { return status_; }

 private:
  const KernelModule& module_;
  const DriverStream stream_;
  KernelBatch* const batch_;
  mutable Result status_ = kSuccess;
};

/// All modules of one GPU.
class Kernels {
 public:
  Kernels(std::shared_ptr<const Gpu> gpu, KernelCompiler compiler);

  /// The module of this text; the first call compiles and loads it. Thread-safe. Throws Error.
  std::shared_ptr<const KernelModule> module(const std::string& title, const std::string& text);

 private:
  const std::shared_ptr<const Gpu> gpu_;
  const KernelCompiler compiler_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const KernelModule>> modules_;  ///< Key: the text.
};

}  // namespace hipress::cuda
