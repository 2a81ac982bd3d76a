// SPDX-License-Identifier: Apache-2.0
//
// Kernels on one GPU: compiled when they are first needed, loaded once, started by their symbols.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/device/cuda/gpu.h"
#include "core/ops/cuda/launcher.h"

namespace hipress::cuda {

/// Compiles the text of kernels for a compute capability; returns what the driver loads. `title` is for
/// errors: "codec onebit". Any thread calls it, without a lock. Throws Error.
using KernelCompiler =
    std::function<std::string(const std::string& title, const std::string& text, int major, int minor)>;

/// The loaded code of one text.
class KernelModule {
 public:
  KernelModule(std::shared_ptr<const Gpu> gpu, const std::string& title, const std::string& image);
  ~KernelModule();
  KernelModule(const KernelModule&) = delete;
  KernelModule& operator=(const KernelModule&) = delete;

  /// Thread-safe. kNotFound if there is no such kernel.
  Result find(const char* symbol, DriverFunction* function) const;
  const Gpu& gpu() const { return *gpu_; }

 private:
  const std::shared_ptr<const Gpu> gpu_;
  DriverModule module_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::map<std::string, DriverFunction, std::less<>> functions_;
};

/// Starts the kernels of one module on one stream, and keeps the first error. The GPU is the thread's current
/// one.
class KernelLauncher final : public Launcher {
 public:
  KernelLauncher(const KernelModule& module, DriverStream stream);
  Result status() const { return status_; }

 private:
  const KernelModule& module_;
  const DriverStream stream_;
  mutable Result status_ = kSuccess;
};

/// All modules of one GPU.
class Kernels {
 public:
  Kernels(std::shared_ptr<const Gpu> gpu, KernelCompiler compiler);

  /// The module of this text, compiled and loaded when it is first asked for. Thread-safe. Throws Error.
  std::shared_ptr<const KernelModule> module(const std::string& title, const std::string& text);

 private:
  const std::shared_ptr<const Gpu> gpu_;
  const KernelCompiler compiler_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const KernelModule>> modules_;  ///< By text.
};

}  // namespace hipress::cuda
