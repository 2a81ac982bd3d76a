// SPDX-License-Identifier: Apache-2.0
//
// HIPRESS_HOST_DEVICE marks functions that processors and GPUs (NVRTC) share.
#pragma once

#if defined(__CUDACC_RTC__)
#define HIPRESS_HOST_DEVICE __host__ __device__
#else
#define HIPRESS_HOST_DEVICE
#endif
