// SPDX-License-Identifier: Apache-2.0
#include "frameworks/mxnet/operators/mxnet_engine.h"

#include <mxnet/base.h>
#include <mxnet/engine.h>

#include <cstring>
#include <mutex>
#include <type_traits>

namespace hipress::mxnet_operators {
namespace {

using OnComplete = ::mxnet::engine::CallbackOnComplete;

/// Prioritised operations have their own threads. Other operations would queue behind the kernels of
/// backward, which one thread runs on a CPU.
struct PushOptions {
  ::mxnet::Context context = ::mxnet::Context::CPU();
  ::mxnet::FnProperty property = ::mxnet::FnProperty::kCPUPrioritized;
};

}  // namespace

Completion::Completion(const void* given) : copy_{} {
  static_assert(sizeof(copy_) == sizeof(OnComplete) && std::is_trivially_copyable_v<OnComplete>);
  std::memcpy(copy_.data(), given, copy_.size());
}

void Completion::operator()(const std::string* error) const {
  const auto& done = *reinterpret_cast<const OnComplete*>(copy_.data());
  if (error == nullptr) return done();
  // MXNet stores all errors in one list without a lock, and several threads report ours at once.
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  const dmlc::Error told(*error);
  done(&told);
}

int pushAsynchronous(EngineAsyncFunc begin, void* parameter, EngineFuncParamDeleter destroy,
                     const UsedArrays& arrays, int priority, const char* name) {
  PushOptions options;
  return MXEnginePushAsyncND(begin, parameter, destroy, &options.context, arrays.read, arrays.readCount,
                             arrays.written, arrays.writtenCount, &options.property, priority, name, false);
}

int pushSynchronous(EngineSyncFunc run, void* parameter, EngineFuncParamDeleter destroy,
                    const UsedArrays& arrays, const char* name) {
  PushOptions options;
  return MXEnginePushSyncND(run, parameter, destroy, &options.context, arrays.read, arrays.readCount,
                            arrays.written, arrays.writtenCount, &options.property, 0, name);
}

}  // namespace hipress::mxnet_operators
