// SPDX-License-Identifier: Apache-2.0
//
// The few functions of the CUDA runtime that tests and benchmarks call through the library of a generated
// codec, so that they need no other. All return cudaError_t.
#include <cuda_runtime.h>

#include <cstddef>

#define HIPRESS_C_FUNCTION extern "C" __attribute__((visibility("default")))

HIPRESS_C_FUNCTION int hipress_cuda_allocate(void** memory, size_t bytes) {
  return cudaMalloc(memory, bytes);
}
HIPRESS_C_FUNCTION int hipress_cuda_free(void* memory) {
  return cudaFree(memory);
}
/// Between any two places; waits for everything started before, and says what went wrong there.
HIPRESS_C_FUNCTION int hipress_cuda_copy(void* to, const void* from, size_t bytes) {
  const cudaError_t before = cudaDeviceSynchronize();
  return before != cudaSuccess ? before : cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
}
/// Within the device's memory, on the default stream; does not wait.
HIPRESS_C_FUNCTION int hipress_cuda_start_copy(void* to, const void* from, size_t bytes) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr);
}
HIPRESS_C_FUNCTION int hipress_cuda_event(cudaEvent_t* event) {
  return cudaEventCreate(event);
}
HIPRESS_C_FUNCTION int hipress_cuda_record(cudaEvent_t event) {
  return cudaEventRecord(event, nullptr);
}
/// Milliseconds from one event to a later one, for which it waits.
HIPRESS_C_FUNCTION int hipress_cuda_elapsed(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const cudaError_t reached = cudaEventSynchronize(to);
  return reached != cudaSuccess ? reached : cudaEventElapsedTime(milliseconds, from, to);
}
HIPRESS_C_FUNCTION const char* hipress_cuda_error(int error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}
