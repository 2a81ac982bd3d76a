// SPDX-License-Identifier: Apache-2.0
//
// The part of MXNet's engine that HiPress uses. Operations are pushed with their arrays, begin when these are
// ready, and may end later. MXNet's C++ headers are not C++20, so only mxnet_engine.cc includes them.
#pragma once

#include <mxnet/c_api.h>

#include <array>
#include <string>

namespace hipress::mxnet_operators {

/// Ends an operation that has begun. A copy of MXNet's own object.
class Completion {
 public:
  explicit Completion(const void* given);
  /// Reports that the operation is done. With an error, its arrays and all arrays computed from them have the
  /// error until a call waits for one of them. `nullptr`: no error.
  void operator()(const std::string* error) const;

 private:
  alignas(void*) std::array<unsigned char, 3 * sizeof(void*)> copy_;
};

/// The arrays of an operation. They must differ.
struct UsedArrays {
  NDArrayHandle* read = nullptr;
  int readCount = 0;
  NDArrayHandle* written = nullptr;
  int writtenCount = 0;
};

/// Both push an operation of a few microseconds and return 0, or MXNet's -1. The engine then owns
/// `parameter`, and passes it to `destroy` at the end. An asynchronous operation gets a Completion as second
/// argument and ends when it calls that. A synchronous operation ends when it returns.
int pushAsynchronous(EngineAsyncFunc begin, void* parameter, EngineFuncParamDeleter destroy,
                     const UsedArrays& arrays, int priority, const char* name);
int pushSynchronous(EngineSyncFunc run, void* parameter, EngineFuncParamDeleter destroy,
                    const UsedArrays& arrays, const char* name);

}  // namespace hipress::mxnet_operators
