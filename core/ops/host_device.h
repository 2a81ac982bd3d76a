// SPDX-License-Identifier: Apache-2.0
//
// HIPRESS_HOST_DEVICE marks functions that processors and CUDA devices share.
#pragma once

#if defined(__CUDACC__)
#define HIPRESS_HOST_DEVICE __host__ __device__
#else
#define HIPRESS_HOST_DEVICE
#endif
