// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from compll/algorithms/u8bit.cll.
#include "core/ops/cuda/generated.h"

namespace hipress::generated_cuda::codec_u8bit {

using namespace hipress;

struct Params {
  int32_t p_block{};
  bool p_error_feedback{};
  float p_residual_factor{};
  float p_gradient_factor{};
};

namespace encoding {

struct Frame {
  size_t n = 0;
  Params params;
  uint32_t stop = 0;
  unsigned long long bad = 0;
  size_t bytes = 0;
  uint32_t ticket = 0;
  const float* gradient = nullptr;
  float scale = 1;
  ops::RandomKey random;
  uint8_t* message = nullptr;
  uint32_t* messageBytes = nullptr;
  uint32_t* error = nullptr;
  const uint8_t* payload = nullptr;
  size_t capacity = 0;
  const float* before_residual = nullptr;
  float* after_residual = nullptr;
  size_t n_scale = 0;
  float* v_scale = nullptr;
  size_t o_0 = 0;
  size_t o_1 = 0;
  float* r_scale = nullptr;
};

template <bool kStates>
HIPRESS_DEVICE inline int32_t at_magnitude_first([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
HIPRESS_DEVICE inline float at_magnitude_middles([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
HIPRESS_DEVICE inline float at_magnitude([[maybe_unused]] const Frame* f, int32_t i);

template <bool kStates>
HIPRESS_DEVICE inline int32_t at_magnitude_first([[maybe_unused]] const Frame* f, int32_t i) {
  static constexpr int32_t values[] = {
      0,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,
      1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,
      1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,
      1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,
      1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,
      1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,
      1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,
      1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,
      1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   1,   2,   2,   2,   2,   2,   2,
      2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,
      2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,
      2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,
      2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,
      2,   2,   2,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,
      3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,
      3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,
      3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,
      3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   3,   4,   4,   4,   4,   4,   4,   4,   4,   4,
      4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,
      4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,
      4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,
      4,   4,   4,   5,   5,   5,   5,   5,   5,   5,   5,   5,   5,   5,   5,   5,   5,   5,   5,   5,   5,
      5,   5,   5,   5,   5,   5,   5,   5,   5,   5,   5,   5,   5,   5,   5,   5,   5,   5,   5,   5,   5,
      5,   5,   5,   5,   5,   5,   5,   5,   6,   6,   6,   6,   6,   6,   6,   6,   6,   6,   6,   6,   6,
      6,   6,   6,   6,   6,   6,   6,   6,   6,   6,   6,   6,   6,   6,   6,   6,   6,   7,   7,   7,   7,
      7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,
      7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,
      7,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,
      8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,   8,
      8,   8,   8,   8,   8,   8,   9,   9,   9,   9,   9,   9,   9,   9,   9,   9,   9,   9,   9,   9,   9,
      9,   9,   9,   9,   9,   9,   9,   9,   9,   9,   9,   9,   9,   9,   9,   9,   9,   9,   9,   9,   9,
      9,   9,   10,  10,  10,  10,  10,  10,  10,  10,  10,  10,  10,  10,  10,  10,  10,  10,  10,  10,  10,
      10,  10,  10,  10,  10,  10,  10,  10,  10,  10,  11,  11,  11,  11,  11,  11,  11,  11,  11,  11,  11,
      11,  11,  11,  11,  11,  11,  11,  11,  11,  11,  11,  12,  12,  12,  12,  12,  12,  12,  12,  12,  12,
      12,  12,  12,  12,  13,  13,  13,  13,  13,  13,  13,  13,  13,  13,  13,  13,  13,  13,  13,  14,  14,
      14,  14,  14,  14,  14,  14,  14,  14,  14,  14,  14,  14,  14,  15,  15,  15,  15,  15,  15,  15,  15,
      15,  15,  15,  15,  15,  15,  15,  15,  15,  15,  15,  15,  16,  16,  16,  16,  16,  16,  16,  16,  16,
      16,  16,  16,  16,  16,  16,  16,  16,  16,  16,  16,  16,  16,  16,  16,  16,  16,  16,  16,  16,  16,
      17,  17,  17,  17,  17,  17,  17,  17,  17,  17,  17,  17,  17,  17,  17,  17,  17,  17,  17,  17,  17,
      17,  17,  17,  17,  17,  17,  17,  17,  17,  17,  18,  18,  18,  18,  18,  18,  18,  18,  18,  18,  18,
      18,  18,  18,  18,  18,  18,  18,  18,  19,  19,  19,  19,  19,  19,  19,  19,  19,  19,  19,  19,  19,
      19,  19,  19,  19,  19,  20,  20,  20,  20,  20,  20,  20,  20,  20,  20,  20,  20,  20,  20,  20,  20,
      20,  20,  21,  21,  21,  21,  21,  21,  21,  21,  21,  21,  21,  22,  22,  22,  22,  22,  22,  22,  22,
      22,  23,  23,  23,  23,  23,  23,  23,  23,  23,  23,  24,  24,  24,  24,  24,  24,  24,  24,  24,  25,
      25,  25,  25,  25,  25,  25,  25,  25,  26,  26,  26,  26,  26,  26,  26,  26,  26,  27,  27,  27,  27,
      27,  27,  27,  27,  27,  28,  28,  28,  28,  28,  28,  29,  29,  29,  29,  30,  30,  30,  30,  30,  31,
      31,  31,  31,  31,  31,  31,  31,  31,  32,  32,  32,  32,  32,  32,  32,  32,  32,  32,  32,  32,  32,
      32,  32,  32,  32,  32,  33,  33,  33,  33,  33,  33,  33,  33,  33,  33,  33,  33,  33,  33,  33,  33,
      33,  33,  33,  33,  33,  33,  33,  33,  34,  34,  34,  34,  34,  34,  34,  34,  34,  34,  34,  35,  35,
      35,  35,  35,  35,  35,  35,  35,  35,  35,  35,  36,  36,  36,  36,  36,  36,  36,  36,  36,  36,  36,
      37,  37,  37,  37,  37,  37,  37,  37,  37,  37,  37,  37,  38,  38,  38,  38,  38,  38,  38,  38,  38,
      38,  38,  39,  39,  39,  39,  39,  39,  39,  39,  39,  40,  40,  40,  40,  40,  40,  41,  41,  41,  41,
      41,  41,  42,  42,  42,  42,  42,  43,  43,  43,  43,  43,  43,  44,  44,  44,  44,  44,  44,  45,  45,
      45,  45,  45,  45,  46,  46,  46,  46,  46,  47,  47,  47,  47,  47,  47,  48,  48,  48,  48,  48,  48,
      49,  49,  49,  49,  49,  49,  50,  50,  50,  50,  51,  51,  51,  52,  52,  52,  53,  53,  53,  54,  54,
      54,  55,  55,  55,  56,  56,  56,  57,  57,  57,  58,  58,  58,  59,  59,  60,  60,  60,  61,  61,  61,
      62,  62,  62,  63,  63,  63,  63,  63,  63,  64,  64,  64,  64,  64,  64,  64,  64,  64,  64,  64,  65,
      65,  65,  65,  65,  65,  65,  65,  65,  65,  65,  65,  65,  66,  66,  66,  66,  66,  66,  66,  67,  67,
      67,  67,  67,  67,  67,  67,  68,  68,  68,  68,  68,  68,  68,  69,  69,  69,  69,  69,  69,  69,  70,
      70,  70,  70,  70,  70,  70,  71,  71,  71,  71,  71,  71,  71,  72,  72,  72,  72,  72,  72,  72,  72,
      73,  73,  73,  73,  73,  73,  73,  74,  74,  74,  74,  74,  74,  75,  75,  75,  76,  76,  76,  76,  77,
      77,  77,  77,  78,  78,  78,  79,  79,  79,  79,  80,  80,  80,  81,  81,  81,  81,  82,  82,  82,  82,
      83,  83,  83,  84,  84,  84,  84,  85,  85,  85,  86,  86,  86,  86,  87,  87,  87,  87,  88,  88,  88,
      89,  89,  89,  89,  90,  90,  90,  91,  91,  91,  91,  92,  92,  92,  93,  94,  94,  95,  95,  96,  96,
      97,  97,  98,  99,  99,  100, 100, 101, 101, 102, 102, 103, 104, 104, 105, 105, 106, 106, 107, 107, 108,
      109, 109, 110, 110, 111, 111, 112, 112, 113, 114, 114, 115, 115, 116, 116, 117, 117, 118, 119, 119, 120,
      120, 121, 121, 122, 122, 123, 124, 124, 125, 125, 126, 126, 0};
  const uint32_t at = ops::lesser(static_cast<uint32_t>(i), 1398u);
  return values[at];
}

template <bool kStates>
HIPRESS_DEVICE inline float at_magnitude_middles([[maybe_unused]] const Frame* f, int32_t i) {
  static constexpr float values[] = {
      0x1.27476c0000000p-22f, 0x1.fe07000000000p-20f, 0x1.7119480000000p-18f, 0x1.e68a0c0000000p-17f,
      0x1.10a1380000000p-15f, 0x1.cd5f9a0000000p-15f, 0x1.450efe0000000p-14f, 0x1.00e6b00000000p-13f,
      0x1.bda5120000000p-13f, 0x1.54c9860000000p-12f, 0x1.cac0820000000p-12f, 0x1.205bc00000000p-11f,
      0x1.5b57400000000p-11f, 0x1.9652bc0000000p-11f, 0x1.d14e3c0000000p-11f, 0x1.23a29c0000000p-10f,
      0x1.99999a0000000p-10f, 0x1.16872c0000000p-9f,  0x1.6041880000000p-9f,  0x1.a9fbe80000000p-9f,
      0x1.f3b6440000000p-9f,  0x1.1eb8520000000p-8f,  0x1.4395800000000p-8f,  0x1.6872b00000000p-8f,
      0x1.8d4fe00000000p-8f,  0x1.b22d0e0000000p-8f,  0x1.d70a3c0000000p-8f,  0x1.fbe76c0000000p-8f,
      0x1.10624e0000000p-7f,  0x1.22d0e60000000p-7f,  0x1.353f7c0000000p-7f,  0x1.5a1cac0000000p-7f,
      0x1.a3d70c0000000p-7f,  0x1.0000000000000p-6f,  0x1.2e147c0000000p-6f,  0x1.5c28f60000000p-6f,
      0x1.8a3d700000000p-6f,  0x1.b851ec0000000p-6f,  0x1.e666660000000p-6f,  0x1.0a3d700000000p-5f,
      0x1.2147ae0000000p-5f,  0x1.3851ec0000000p-5f,  0x1.4f5c280000000p-5f,  0x1.6666680000000p-5f,
      0x1.7d70a40000000p-5f,  0x1.947ae00000000p-5f,  0x1.ab85200000000p-5f,  0x1.c28f5c0000000p-5f,
      0x1.d999980000000p-5f,  0x1.f0a3d80000000p-5f,  0x1.03d70a0000000p-4f,  0x1.0f5c280000000p-4f,
      0x1.1ae1480000000p-4f,  0x1.2666680000000p-4f,  0x1.31eb840000000p-4f,  0x1.3d70a40000000p-4f,
      0x1.48f5c40000000p-4f,  0x1.547ae00000000p-4f,  0x1.6000000000000p-4f,  0x1.6b85200000000p-4f,
      0x1.770a3c0000000p-4f,  0x1.828f5c0000000p-4f,  0x1.8e147c0000000p-4f,  0x1.a51eb80000000p-4f,
      0x1.d333340000000p-4f,  0x1.0666660000000p-3f,  0x1.2333340000000p-3f,  0x1.4000000000000p-3f,
      0x1.5ccccc0000000p-3f,  0x1.79999a0000000p-3f,  0x1.9666660000000p-3f,  0x1.b333340000000p-3f,
      0x1.d000000000000p-3f,  0x1.eccccc0000000p-3f,  0x1.04cccc0000000p-2f,  0x1.1333340000000p-2f,
      0x1.2199980000000p-2f,  0x1.3000000000000p-2f,  0x1.3e66680000000p-2f,  0x1.4ccccc0000000p-2f,
      0x1.5b33340000000p-2f,  0x1.6999980000000p-2f,  0x1.7800000000000p-2f,  0x1.8666680000000p-2f,
      0x1.94cccc0000000p-2f,  0x1.a333340000000p-2f,  0x1.b199980000000p-2f,  0x1.c000000000000p-2f,
      0x1.ce66680000000p-2f,  0x1.dccccc0000000p-2f,  0x1.eb33340000000p-2f,  0x1.f999980000000p-2f,
      0x1.0400000000000p-1f,  0x1.0b33340000000p-1f,  0x1.1266660000000p-1f,  0x1.19999a0000000p-1f,
      0x1.20cccc0000000p-1f,  0x1.2800000000000p-1f,  0x1.2f33340000000p-1f,  0x1.3666660000000p-1f,
      0x1.3d999a0000000p-1f,  0x1.44cccc0000000p-1f,  0x1.4c00000000000p-1f,  0x1.5333340000000p-1f,
      0x1.5a66660000000p-1f,  0x1.61999a0000000p-1f,  0x1.68cccc0000000p-1f,  0x1.7000000000000p-1f,
      0x1.7733340000000p-1f,  0x1.7e66660000000p-1f,  0x1.85999a0000000p-1f,  0x1.8ccccc0000000p-1f,
      0x1.9400000000000p-1f,  0x1.9b33340000000p-1f,  0x1.a266660000000p-1f,  0x1.a9999a0000000p-1f,
      0x1.b0cccc0000000p-1f,  0x1.b800000000000p-1f,  0x1.bf33340000000p-1f,  0x1.c666660000000p-1f,
      0x1.cd999a0000000p-1f,  0x1.d4cccc0000000p-1f,  0x1.dc00000000000p-1f,  0x1.e333340000000p-1f,
      0x1.ea66660000000p-1f,  0x1.f1999a0000000p-1f,  0x1.f8cccc0000000p-1f,  0x0.0p+0f};
  const uint32_t at = ops::lesser(static_cast<uint32_t>(i), 127u);
  return values[at];
}

template <bool kStates>
HIPRESS_DEVICE inline float at_magnitude([[maybe_unused]] const Frame* f, int32_t i) {
  static constexpr float values[] = {0x0.0p+0f,
                                     0x1.27476c0000000p-21f,
                                     0x1.b435260000000p-19f,
                                     0x1.040bfe0000000p-17f,
                                     0x1.64840e0000000p-16f,
                                     0x1.6f00680000000p-15f,
                                     0x1.15df660000000p-14f,
                                     0x1.743e960000000p-14f,
                                     0x1.47ae140000000p-13f,
                                     0x1.19ce080000000p-12f,
                                     0x1.8fc5040000000p-12f,
                                     0x1.02de000000000p-11f,
                                     0x1.3dd9800000000p-11f,
                                     0x1.78d4fe0000000p-11f,
                                     0x1.b3d07c0000000p-11f,
                                     0x1.eecbfc0000000p-11f,
                                     0x1.4fdf3c0000000p-10f,
                                     0x1.e353f80000000p-10f,
                                     0x1.3b645a0000000p-9f,
                                     0x1.851eb80000000p-9f,
                                     0x1.ced9160000000p-9f,
                                     0x1.0c49ba0000000p-8f,
                                     0x1.3126ea0000000p-8f,
                                     0x1.5604180000000p-8f,
                                     0x1.7ae1480000000p-8f,
                                     0x1.9fbe760000000p-8f,
                                     0x1.c49ba60000000p-8f,
                                     0x1.e978d40000000p-8f,
                                     0x1.072b020000000p-7f,
                                     0x1.19999a0000000p-7f,
                                     0x1.2c08320000000p-7f,
                                     0x1.3e76c80000000p-7f,
                                     0x1.75c2900000000p-7f,
                                     0x1.d1eb860000000p-7f,
                                     0x1.170a3e0000000p-6f,
                                     0x1.451eb80000000p-6f,
                                     0x1.7333340000000p-6f,
                                     0x1.a147ae0000000p-6f,
                                     0x1.cf5c280000000p-6f,
                                     0x1.fd70a40000000p-6f,
                                     0x1.15c2900000000p-5f,
                                     0x1.2ccccc0000000p-5f,
                                     0x1.43d70a0000000p-5f,
                                     0x1.5ae1480000000p-5f,
                                     0x1.71eb860000000p-5f,
                                     0x1.88f5c20000000p-5f,
                                     0x1.a000000000000p-5f,
                                     0x1.b70a3e0000000p-5f,
                                     0x1.ce147a0000000p-5f,
                                     0x1.e51eb80000000p-5f,
                                     0x1.fc28f60000000p-5f,
                                     0x1.09999a0000000p-4f,
                                     0x1.151eb80000000p-4f,
                                     0x1.20a3d80000000p-4f,
                                     0x1.2c28f60000000p-4f,
                                     0x1.37ae140000000p-4f,
                                     0x1.4333340000000p-4f,
                                     0x1.4eb8520000000p-4f,
                                     0x1.5a3d700000000p-4f,
                                     0x1.65c2900000000p-4f,
                                     0x1.7147ae0000000p-4f,
                                     0x1.7ccccc0000000p-4f,
                                     0x1.8851ec0000000p-4f,
                                     0x1.93d70a0000000p-4f,
                                     0x1.b666660000000p-4f,
                                     0x1.f000000000000p-4f,
                                     0x1.14cccc0000000p-3f,
                                     0x1.31999a0000000p-3f,
                                     0x1.4e66660000000p-3f,
                                     0x1.6b33340000000p-3f,
                                     0x1.8800000000000p-3f,
                                     0x1.a4cccc0000000p-3f,
                                     0x1.c1999a0000000p-3f,
                                     0x1.de66660000000p-3f,
                                     0x1.fb33340000000p-3f,
                                     0x1.0c00000000000p-2f,
                                     0x1.1a66660000000p-2f,
                                     0x1.28cccc0000000p-2f,
                                     0x1.3733340000000p-2f,
                                     0x1.45999a0000000p-2f,
                                     0x1.5400000000000p-2f,
                                     0x1.6266660000000p-2f,
                                     0x1.70cccc0000000p-2f,
                                     0x1.7f33340000000p-2f,
                                     0x1.8d999a0000000p-2f,
                                     0x1.9c00000000000p-2f,
                                     0x1.aa66660000000p-2f,
                                     0x1.b8cccc0000000p-2f,
                                     0x1.c733340000000p-2f,
                                     0x1.d5999a0000000p-2f,
                                     0x1.e400000000000p-2f,
                                     0x1.f266660000000p-2f,
                                     0x1.0066660000000p-1f,
                                     0x1.07999a0000000p-1f,
                                     0x1.0ecccc0000000p-1f,
                                     0x1.1600000000000p-1f,
                                     0x1.1d33340000000p-1f,
                                     0x1.2466660000000p-1f,
                                     0x1.2b999a0000000p-1f,
                                     0x1.32cccc0000000p-1f,
                                     0x1.3a00000000000p-1f,
                                     0x1.4133340000000p-1f,
                                     0x1.4866660000000p-1f,
                                     0x1.4f999a0000000p-1f,
                                     0x1.56cccc0000000p-1f,
                                     0x1.5e00000000000p-1f,
                                     0x1.6533340000000p-1f,
                                     0x1.6c66660000000p-1f,
                                     0x1.73999a0000000p-1f,
                                     0x1.7acccc0000000p-1f,
                                     0x1.8200000000000p-1f,
                                     0x1.8933340000000p-1f,
                                     0x1.9066660000000p-1f,
                                     0x1.97999a0000000p-1f,
                                     0x1.9ecccc0000000p-1f,
                                     0x1.a600000000000p-1f,
                                     0x1.ad33340000000p-1f,
                                     0x1.b466660000000p-1f,
                                     0x1.bb999a0000000p-1f,
                                     0x1.c2cccc0000000p-1f,
                                     0x1.ca00000000000p-1f,
                                     0x1.d133340000000p-1f,
                                     0x1.d866660000000p-1f,
                                     0x1.df999a0000000p-1f,
                                     0x1.e6cccc0000000p-1f,
                                     0x1.ee00000000000p-1f,
                                     0x1.f533340000000p-1f,
                                     0x1.fc66660000000p-1f,
                                     0x0.0p+0f};
  const uint32_t at = ops::lesser(static_cast<uint32_t>(i), 128u);
  return values[at];
}

struct Combine0 {
  const Frame* f;
  HIPRESS_DEVICE float operator()(float a, float b) const {
    [[maybe_unused]] const float x1 = ops::greater(a, b);
    return x1;
  }
};

template <bool kStates>
struct Kernel0 {
  Frame* frame;
  Frame initial;  // as far as the host knows it
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    block.once([&] { *frame = initial; });
    block.sync();
    block.once([&] {
      Frame& f = *frame;
      if (f.stop == 0) {
        f.n_scale = ops::blockCount(f.n, ops::atLeastOne(f.params.p_block));
        f.o_0 = 0;
        f.o_1 = ops::packedBytes(f.n_scale, 32u);
      }
    });
    block.sync();
  }
};

template <bool kStates>
struct Kernel1 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto p_block = f->params.p_block;
      [[maybe_unused]] const auto size = static_cast<size_t>(ops::atLeastOne(p_block));
      [[maybe_unused]] const auto v_scale = f->v_scale;
      [[maybe_unused]] const auto r_scale = f->r_scale;
      [[maybe_unused]] const auto init_scale = static_cast<float>(0x1.0000000000000p-149f);
      const float scale = f->scale;
      [[maybe_unused]] const auto gradient = f->gradient;
      [[maybe_unused]] const auto before_residual = f->before_residual;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      HIPRESS_SHARED float lanes_scale[cuda::kUnitLanes];
      const cuda::BlockParts parts(f->n, size, true);
      const uint32_t together = cuda::unitsTogether(parts.units());
      for (size_t base = block.index * together; base < parts.units(); base += block.count * together) {
        block.threads([&](unsigned t) {
          const auto unit = static_cast<uint32_t>(base + t / ops::kLanes);
          if (t / ops::kLanes >= together || unit >= parts.units()) return;
          const size_t first = parts.first(unit), last = parts.last(unit);
          float own_scale{};
          struct Given {
            float gradient;
            float before_residual;
          };
          cuda::eachOfLane<8>(
              first, last, t % ops::kLanes,
              [&](size_t place) {
                [[maybe_unused]] const auto i = static_cast<int32_t>(place);
                return Given{cuda::load(gradient + i), kStates ? cuda::load(before_residual + i) : float{}};
              },
              [&](size_t place, const Given& given) {
                [[maybe_unused]] const auto i = static_cast<int32_t>(place);
                [[maybe_unused]] const float x1 = given.gradient * scale;
                [[maybe_unused]] const float x2 = kStates ? p_residual_factor * given.before_residual : 0.0f;
                [[maybe_unused]] const float x3 = (x1 + x2);
                [[maybe_unused]] const float x4 = ops::absolute(x3);
                own_scale = place < first + ops::kLanes ? static_cast<float>(x4)
                                                        : Combine0{f}(own_scale, static_cast<float>(x4));
              });
          lanes_scale[cuda::placeOfLane(t)] = own_scale;
        });
        block.sync();
        block.threads([&](unsigned t) {
          const auto unit = static_cast<uint32_t>(base + t);
          if (t >= together || unit >= parts.units()) return;
          const size_t first = parts.first(unit), last = parts.last(unit);
          if (first >= last) return;
          const float result_scale =
              cuda::finishLanes(lanes_scale + cuda::placeOfLane(t * ops::kLanes), last - first, Combine0{f});
          if (parts.isShort()) {
            v_scale[unit] = Combine0{f}(init_scale, result_scale);
          } else {
            r_scale[unit] = result_scale;
          }
        });
        block.sync();
      }
    }
  }
};

template <bool kStates>
struct Kernel2 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto p_block = f->params.p_block;
      [[maybe_unused]] const auto size = static_cast<size_t>(ops::atLeastOne(p_block));
      [[maybe_unused]] const auto v_scale = f->v_scale;
      [[maybe_unused]] const auto r_scale = f->r_scale;
      [[maybe_unused]] const auto init_scale = static_cast<float>(0x1.0000000000000p-149f);
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      const cuda::BlockParts parts(f->n, size);
      cuda::finishLongBlocks(block, parts, r_scale, init_scale, v_scale, Combine0{f});
    }
  }
};

template <bool kStates>
struct Kernel3 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto field_0 = f->message + f->o_0;
      [[maybe_unused]] const auto v_scale = f->v_scale;
      [[maybe_unused]] const auto typed_0 = reinterpret_cast<float*>(f->message + f->o_0);
      [[maybe_unused]] const auto length = f->n_scale;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        struct Given {
          float v_scale;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(v_scale + i)};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const float x1 = given.v_scale;
              typed_0[i] = x1;
            });
      }
    }
  }
};

template <bool kStates>
struct Kernel4 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      const float scale = f->scale;
      [[maybe_unused]] const auto gradient = f->gradient;
      [[maybe_unused]] const auto before_residual = f->before_residual;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      [[maybe_unused]] const auto p_block = f->params.p_block;
      const cuda::BlockSize size_blocks0(static_cast<size_t>(ops::atLeastOne(p_block)));
      [[maybe_unused]] const auto v_scale = f->v_scale;
      [[maybe_unused]] const auto count_scale = f->n_scale;
      [[maybe_unused]] const auto after_residual = f->after_residual;
      [[maybe_unused]] const auto field_1 = f->message + f->o_1;
      [[maybe_unused]] const auto length = f->n;
      alignas(4) HIPRESS_SHARED uint8_t t_x9[cuda::kTile];
      [[maybe_unused]] int32_t bad = 0;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        const cuda::TileBlocks blocks0(tile, size_blocks0);
        struct Given {
          float gradient;
          float before_residual;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(gradient + i), kStates ? cuda::load(before_residual + i) : float{}};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const float x1 = given.gradient * scale;
              [[maybe_unused]] const float x2 = kStates ? p_residual_factor * given.before_residual : 0.0f;
              [[maybe_unused]] const float x3 = (x1 + x2);
              [[maybe_unused]] const float x4 =
                  (ops::absolute(x3) / cuda::loadInside(v_scale, count_scale, blocks0.of(j)));
              [[maybe_unused]] const int32_t x5 = at_magnitude_first<kStates>(
                  f,
                  ops::lesser(ops::greater(ops::subtractInt(ops::shiftRight(ops::bitsOf(x4), 17), 6729), 0),
                              1397));
              [[maybe_unused]] const int32_t x6 = ops::multiplyInt(
                  ops::addInt(x5, static_cast<int32_t>((x4 > at_magnitude_middles<kStates>(f, x5)))),
                  static_cast<int32_t>((x4 == x4)));
              [[maybe_unused]] const int32_t x7 = x6;
              [[maybe_unused]] const float x8 =
                  (at_magnitude<kStates>(f, x7) * cuda::loadInside(v_scale, count_scale, blocks0.of(j)));
              [[maybe_unused]] const int32_t x9 =
                  ops::toUint(((x3 < 0x0.0p+0f) ? ops::addInt(x7, 128) : x7), 8u);
              [[maybe_unused]] const float x10 = (x3 - ((x3 < 0x0.0p+0f) ? (-x8) : x8));
              bad += ops::isFinite(kStates ? x10 : x1) ? 0 : 1;
              if (kStates) after_residual[i] = x10;
              t_x9[j] = static_cast<uint8_t>(x9);
            });
        block.sync();
        cuda::packTile(block, t_x9, count, 8u, field_1, tile);
        block.sync();
      }
      if (bad != 0) cuda::addTo(&f->bad, static_cast<unsigned long long>(static_cast<long long>(bad)));
    }
    if (block.last(&f->ticket)) {
      block.once([&] {
        Frame& f = *frame;
        if (f.stop == 0) {
          f.bytes = ops::packedBytes(f.n_scale, 32u) + ops::packedBytes(f.n, 8u);
        }
      });
      block.sync();
      block.once([&] {
        *f->messageBytes = f->bad == 0 && f->stop == 0 ? static_cast<uint32_t>(f->bytes) : 0u;
        *f->error = f->bad == 0 ? f->stop : 0u;
      });
    }
  }
};

}  // namespace encoding

namespace decoding {

struct Frame {
  size_t n = 0;
  Params params;
  uint32_t stop = 0;
  unsigned long long bad = 0;
  size_t bytes = 0;
  uint32_t ticket = 0;
  const uint8_t* payload = nullptr;
  const uint32_t* payloadBytes = nullptr;
  size_t capacity = 0;
  float* output = nullptr;
  uint32_t* error = nullptr;
  size_t n_scale = 0;
  const float* v_scale = nullptr;
  size_t n_code = 0;
  const uint8_t* v_code = nullptr;
};

template <bool kAccumulate>
HIPRESS_DEVICE inline float at_magnitude([[maybe_unused]] const Frame* f, int32_t i);

template <bool kAccumulate>
HIPRESS_DEVICE inline float at_magnitude([[maybe_unused]] const Frame* f, int32_t i) {
  static constexpr float values[] = {0x0.0p+0f,
                                     0x1.27476c0000000p-21f,
                                     0x1.b435260000000p-19f,
                                     0x1.040bfe0000000p-17f,
                                     0x1.64840e0000000p-16f,
                                     0x1.6f00680000000p-15f,
                                     0x1.15df660000000p-14f,
                                     0x1.743e960000000p-14f,
                                     0x1.47ae140000000p-13f,
                                     0x1.19ce080000000p-12f,
                                     0x1.8fc5040000000p-12f,
                                     0x1.02de000000000p-11f,
                                     0x1.3dd9800000000p-11f,
                                     0x1.78d4fe0000000p-11f,
                                     0x1.b3d07c0000000p-11f,
                                     0x1.eecbfc0000000p-11f,
                                     0x1.4fdf3c0000000p-10f,
                                     0x1.e353f80000000p-10f,
                                     0x1.3b645a0000000p-9f,
                                     0x1.851eb80000000p-9f,
                                     0x1.ced9160000000p-9f,
                                     0x1.0c49ba0000000p-8f,
                                     0x1.3126ea0000000p-8f,
                                     0x1.5604180000000p-8f,
                                     0x1.7ae1480000000p-8f,
                                     0x1.9fbe760000000p-8f,
                                     0x1.c49ba60000000p-8f,
                                     0x1.e978d40000000p-8f,
                                     0x1.072b020000000p-7f,
                                     0x1.19999a0000000p-7f,
                                     0x1.2c08320000000p-7f,
                                     0x1.3e76c80000000p-7f,
                                     0x1.75c2900000000p-7f,
                                     0x1.d1eb860000000p-7f,
                                     0x1.170a3e0000000p-6f,
                                     0x1.451eb80000000p-6f,
                                     0x1.7333340000000p-6f,
                                     0x1.a147ae0000000p-6f,
                                     0x1.cf5c280000000p-6f,
                                     0x1.fd70a40000000p-6f,
                                     0x1.15c2900000000p-5f,
                                     0x1.2ccccc0000000p-5f,
                                     0x1.43d70a0000000p-5f,
                                     0x1.5ae1480000000p-5f,
                                     0x1.71eb860000000p-5f,
                                     0x1.88f5c20000000p-5f,
                                     0x1.a000000000000p-5f,
                                     0x1.b70a3e0000000p-5f,
                                     0x1.ce147a0000000p-5f,
                                     0x1.e51eb80000000p-5f,
                                     0x1.fc28f60000000p-5f,
                                     0x1.09999a0000000p-4f,
                                     0x1.151eb80000000p-4f,
                                     0x1.20a3d80000000p-4f,
                                     0x1.2c28f60000000p-4f,
                                     0x1.37ae140000000p-4f,
                                     0x1.4333340000000p-4f,
                                     0x1.4eb8520000000p-4f,
                                     0x1.5a3d700000000p-4f,
                                     0x1.65c2900000000p-4f,
                                     0x1.7147ae0000000p-4f,
                                     0x1.7ccccc0000000p-4f,
                                     0x1.8851ec0000000p-4f,
                                     0x1.93d70a0000000p-4f,
                                     0x1.b666660000000p-4f,
                                     0x1.f000000000000p-4f,
                                     0x1.14cccc0000000p-3f,
                                     0x1.31999a0000000p-3f,
                                     0x1.4e66660000000p-3f,
                                     0x1.6b33340000000p-3f,
                                     0x1.8800000000000p-3f,
                                     0x1.a4cccc0000000p-3f,
                                     0x1.c1999a0000000p-3f,
                                     0x1.de66660000000p-3f,
                                     0x1.fb33340000000p-3f,
                                     0x1.0c00000000000p-2f,
                                     0x1.1a66660000000p-2f,
                                     0x1.28cccc0000000p-2f,
                                     0x1.3733340000000p-2f,
                                     0x1.45999a0000000p-2f,
                                     0x1.5400000000000p-2f,
                                     0x1.6266660000000p-2f,
                                     0x1.70cccc0000000p-2f,
                                     0x1.7f33340000000p-2f,
                                     0x1.8d999a0000000p-2f,
                                     0x1.9c00000000000p-2f,
                                     0x1.aa66660000000p-2f,
                                     0x1.b8cccc0000000p-2f,
                                     0x1.c733340000000p-2f,
                                     0x1.d5999a0000000p-2f,
                                     0x1.e400000000000p-2f,
                                     0x1.f266660000000p-2f,
                                     0x1.0066660000000p-1f,
                                     0x1.07999a0000000p-1f,
                                     0x1.0ecccc0000000p-1f,
                                     0x1.1600000000000p-1f,
                                     0x1.1d33340000000p-1f,
                                     0x1.2466660000000p-1f,
                                     0x1.2b999a0000000p-1f,
                                     0x1.32cccc0000000p-1f,
                                     0x1.3a00000000000p-1f,
                                     0x1.4133340000000p-1f,
                                     0x1.4866660000000p-1f,
                                     0x1.4f999a0000000p-1f,
                                     0x1.56cccc0000000p-1f,
                                     0x1.5e00000000000p-1f,
                                     0x1.6533340000000p-1f,
                                     0x1.6c66660000000p-1f,
                                     0x1.73999a0000000p-1f,
                                     0x1.7acccc0000000p-1f,
                                     0x1.8200000000000p-1f,
                                     0x1.8933340000000p-1f,
                                     0x1.9066660000000p-1f,
                                     0x1.97999a0000000p-1f,
                                     0x1.9ecccc0000000p-1f,
                                     0x1.a600000000000p-1f,
                                     0x1.ad33340000000p-1f,
                                     0x1.b466660000000p-1f,
                                     0x1.bb999a0000000p-1f,
                                     0x1.c2cccc0000000p-1f,
                                     0x1.ca00000000000p-1f,
                                     0x1.d133340000000p-1f,
                                     0x1.d866660000000p-1f,
                                     0x1.df999a0000000p-1f,
                                     0x1.e6cccc0000000p-1f,
                                     0x1.ee00000000000p-1f,
                                     0x1.f533340000000p-1f,
                                     0x1.fc66660000000p-1f,
                                     0x0.0p+0f};
  const uint32_t at = ops::lesser(static_cast<uint32_t>(i), 128u);
  return values[at];
}

template <bool kAccumulate>
struct Kernel0 {
  Frame* frame;
  Frame initial;  // as far as the host knows it
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    block.once([&] { *frame = initial; });
    block.sync();
    block.once([&] {
      Frame& f = *frame;
      if (f.stop == 0) {
        f.bytes = f.payloadBytes != nullptr ? *f.payloadBytes : f.capacity;
        if (f.bytes > f.capacity) f.stop = 1u;
        if (f.bytes == 0) f.stop = cuda::kLost;
      }
    });
    block.sync();
    block.once([&] {
      Frame& f = *frame;
      if (f.stop == 0) {
        cuda::PayloadReader reader(f.payload, f.bytes, &f.stop);
        f.n_scale = reader.count(ops::blocksOf(static_cast<int32_t>(f.n), f.params.p_block), 2u);
        f.v_scale = reinterpret_cast<const float*>(reader.numbers(f.n_scale, 4, 2u));
        f.n_code = reader.count(static_cast<int32_t>(f.n), 3u);
        f.v_code = reader.packed(f.n_code, 8u, 3u);
        reader.finish(4u);
      }
    });
    block.sync();
  }
};

template <bool kAccumulate>
struct Kernel1 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto v_code = f->v_code;
      [[maybe_unused]] const auto p_block = f->params.p_block;
      const cuda::BlockSize size_blocks0(static_cast<size_t>(ops::atLeastOne(p_block)));
      [[maybe_unused]] const auto v_scale = f->v_scale;
      [[maybe_unused]] const auto count_scale = f->n_scale;
      [[maybe_unused]] const auto output = f->output;
      [[maybe_unused]] const auto length = f->n;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        const cuda::TileBlocks blocks0(tile, size_blocks0);
        struct Given {
          int32_t code_code;
          float old;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::unpackAt(v_code, i, 8u), kAccumulate ? output[i] : 0.0f};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const int32_t x1 = given.code_code;
              [[maybe_unused]] const float x2 = (at_magnitude<kAccumulate>(f, (x1 & 127)) *
                                                 cuda::loadInside(v_scale, count_scale, blocks0.of(j)));
              [[maybe_unused]] const float x3 = ((x1 < 128) ? x2 : (-x2));
              output[i] = kAccumulate ? given.old + x3 : x3;
            });
      }
    }
    if (block.last(&f->ticket)) {
      block.once([&] { *f->error = f->stop == cuda::kLost ? 0u : f->stop; });
    }
  }
};

template <bool kAccumulate>
struct Kernel2 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == cuda::kLost) {
      cuda::fillAll(block, f->output, f->n, static_cast<float>(NAN));
    }
  }
};

struct Sum0 {
  Frame* frames;
  Frame initial;  // as far as the host knows it
  cuda::Contributions given;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    const cuda::Contribution& one = given.all[block.index];
    if (one.values != nullptr) return;
    Kernel0<false> reads{frames + block.index, initial};
    reads.initial.payload = one.payload;
    reads.initial.payloadBytes = one.payloadBytes;
    reads(block);
    block.once([&] { *one.error = reads.frame->stop == cuda::kLost ? 0u : reads.frame->stop; });
  }
};

struct Sum1 {
  const Frame* frames;
  cuda::Contributions given;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    HIPRESS_SHARED float sums[cuda::kTile];
    for (size_t tile = block.index * cuda::kTile; tile < given.count; tile += block.count * cuda::kTile) {
      const cuda::TileSum sum{given, tile, cuda::tileCount(tile, given.count), sums};
      sum.begin(block);
      for (unsigned k = 0; k < given.number; ++k) add(block, sum, k);
      sum.end(block);
    }
  }

 private:
  HIPRESS_DEVICE void add(const cuda::Block& block, const cuda::TileSum& sum, unsigned k) const {
    [[maybe_unused]] constexpr bool kAccumulate = false;
    const Frame* const f = frames + k;
    if (given.all[k].values != nullptr) return sum.add(block, k, given.all[k].values);
    if (f->stop != 0)
      return sum.addEverywhere(block, k, f->stop == cuda::kLost ? static_cast<float>(NAN) : 0.0f);
    [[maybe_unused]] const size_t tile = sum.tile;
    [[maybe_unused]] const unsigned count = sum.count;
    [[maybe_unused]] const auto v_code = f->v_code;
    [[maybe_unused]] const auto p_block = f->params.p_block;
    const cuda::BlockSize size_blocks0(static_cast<size_t>(ops::atLeastOne(p_block)));
    [[maybe_unused]] const auto v_scale = f->v_scale;
    [[maybe_unused]] const auto count_scale = f->n_scale;
    const cuda::TileBlocks blocks0(tile, size_blocks0);
    struct Given {
      int32_t code_code;
    };
    block.elements(
        count,
        [&](unsigned j) {
          [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
          return Given{cuda::unpackAt(v_code, i, 8u)};
        },
        [&](unsigned j, [[maybe_unused]] const Given& given) {
          [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
          [[maybe_unused]] const int32_t x1 = given.code_code;
          [[maybe_unused]] const float x2 = (at_magnitude<kAccumulate>(f, (x1 & 127)) *
                                             cuda::loadInside(v_scale, count_scale, blocks0.of(j)));
          [[maybe_unused]] const float x3 = ((x1 < 128) ? x2 : (-x2));
          sum.put(k, j, x3);
        });
  }
};

}  // namespace decoding

HIPRESS_KERNEL(u8bit_nothing, cuda::Nothing)
HIPRESS_KERNEL(u8bit_encode_0, encoding::Kernel0<false>)
HIPRESS_KERNEL(u8bit_encode_states_0, encoding::Kernel0<true>)
HIPRESS_KERNEL(u8bit_encode_1, encoding::Kernel1<false>)
HIPRESS_KERNEL(u8bit_encode_states_1, encoding::Kernel1<true>)
HIPRESS_KERNEL(u8bit_encode_2, encoding::Kernel2<false>)
HIPRESS_KERNEL(u8bit_encode_states_2, encoding::Kernel2<true>)
HIPRESS_KERNEL(u8bit_encode_3, encoding::Kernel3<false>)
HIPRESS_KERNEL(u8bit_encode_states_3, encoding::Kernel3<true>)
HIPRESS_KERNEL(u8bit_encode_4, encoding::Kernel4<false>)
HIPRESS_KERNEL(u8bit_encode_states_4, encoding::Kernel4<true>)
HIPRESS_KERNEL(u8bit_decode_0, decoding::Kernel0<false>)
HIPRESS_KERNEL(u8bit_decode_accumulate_0, decoding::Kernel0<true>)
HIPRESS_KERNEL(u8bit_decode_1, decoding::Kernel1<false>)
HIPRESS_KERNEL(u8bit_decode_accumulate_1, decoding::Kernel1<true>)
HIPRESS_KERNEL(u8bit_decode_2, decoding::Kernel2<false>)
HIPRESS_KERNEL(u8bit_decode_accumulate_2, decoding::Kernel2<true>)
HIPRESS_KERNEL(u8bit_sum_0, decoding::Sum0)
HIPRESS_KERNEL(u8bit_sum_1, decoding::Sum1)

}  // namespace hipress::generated_cuda::codec_u8bit

namespace hipress::generated_cuda::codec_u8bit {

extern const char* const kernels;

inline Params parameters([[maybe_unused]] const double* values) {
  Params params;
  params.p_block = static_cast<int32_t>(values[0]);
  params.p_error_feedback = static_cast<bool>(values[1]);
  params.p_residual_factor = static_cast<float>(values[2]);
  params.p_gradient_factor = static_cast<float>(values[3]);
  return params;
}

inline size_t bound([[maybe_unused]] size_t n, [[maybe_unused]] const Params& params) {
  [[maybe_unused]] const size_t n_magnitude = ops::asCount(128);
  [[maybe_unused]] const size_t n_magnitude_middles = ops::asCount(127);
  [[maybe_unused]] const size_t n_magnitude_first = ops::asCount(1398);
  [[maybe_unused]] const size_t n_scale = ops::blockCount(n, ops::atLeastOne(params.p_block));
  [[maybe_unused]] const size_t most_scale = ops::blockCount(n, ops::atLeastOne(params.p_block));
  return ops::packedBytes(most_scale, 32u) + ops::packedBytes(n, 8u);
}

/// Without `call`, only the bytes of scratch memory.
template <bool kStates>
size_t encodeWith(const cuda::CudaEncode* call, size_t n, [[maybe_unused]] size_t capacity,
                  const Params& params, [[maybe_unused]] cuda::Stream stream) {
  using namespace encoding;
  [[maybe_unused]] const size_t n_magnitude = ops::asCount(128);
  [[maybe_unused]] const size_t n_magnitude_middles = ops::asCount(127);
  [[maybe_unused]] const size_t n_magnitude_first = ops::asCount(1398);
  [[maybe_unused]] const size_t n_scale = ops::blockCount(n, ops::atLeastOne(params.p_block));
  [[maybe_unused]] const size_t most_scale = ops::blockCount(n, ops::atLeastOne(params.p_block));
  cuda::Arena arena(call == nullptr ? nullptr : call->scratch);
  [[maybe_unused]] Frame* const frame = arena.take<Frame>(1);
  Frame initial;
  initial.v_scale = arena.take<float>(most_scale);
  initial.r_scale = arena.take<float>(cuda::mostPartials(n));
  if (call == nullptr) return arena.bytes();
  initial.n = n;
  initial.params = params;
  initial.gradient = call->gradient;
  initial.scale = call->scale;
  initial.random = {call->seed, call->step, call->tensor, call->firstElement};
  initial.message = call->message;
  initial.messageBytes = call->messageBytes;
  initial.error = call->error;
  initial.payload = call->agreed;
  initial.capacity = capacity;
  initial.before_residual = kStates ? call->before[0] : nullptr;
  initial.after_residual = kStates ? call->after[0] : nullptr;
  cuda::launch(stream, kStates ? "u8bit_encode_states_0" : "u8bit_encode_0", 1,
               Kernel0<kStates>{frame, initial});
  cuda::launch(stream, kStates ? "u8bit_encode_states_1" : "u8bit_encode_1", cuda::gridFor(n),
               Kernel1<kStates>{frame});
  cuda::launch(stream, kStates ? "u8bit_encode_states_2" : "u8bit_encode_2",
               cuda::gridFor(cuda::kTile * most_scale), Kernel2<kStates>{frame});
  cuda::launch(stream, kStates ? "u8bit_encode_states_3" : "u8bit_encode_3", cuda::gridFor(most_scale),
               Kernel3<kStates>{frame});
  cuda::launch(stream, kStates ? "u8bit_encode_states_4" : "u8bit_encode_4", cuda::gridFor(n),
               Kernel4<kStates>{frame});
  return arena.bytes();
}

/// Without `call`, only the bytes of scratch memory.
template <bool kAccumulate>
size_t decodeWith(const cuda::CudaDecode* call, size_t n, size_t capacity, const Params& params,
                  [[maybe_unused]] cuda::Stream stream) {
  using namespace decoding;
  [[maybe_unused]] const size_t n_magnitude = ops::asCount(128);
  [[maybe_unused]] const size_t n_scale =
      ops::asCount(ops::blocksOf(static_cast<int32_t>(n), params.p_block));
  [[maybe_unused]] const size_t most_scale = capacity * 8 / 32u;
  [[maybe_unused]] const size_t n_code = ops::asCount(static_cast<int32_t>(n));
  [[maybe_unused]] const size_t most_code = capacity * 8 / 8u;
  cuda::Arena arena(call == nullptr ? nullptr : call->scratch);
  [[maybe_unused]] Frame* const frame = arena.take<Frame>(1);
  Frame initial;
  if (call == nullptr) return arena.bytes();
  initial.n = n;
  initial.params = params;
  initial.payload = call->payload;
  initial.payloadBytes = call->payloadBytes;
  initial.capacity = capacity;
  initial.output = call->output;
  initial.error = call->error;
  cuda::launch(stream, kAccumulate ? "u8bit_decode_accumulate_0" : "u8bit_decode_0", 1,
               Kernel0<kAccumulate>{frame, initial});
  cuda::launch(stream, kAccumulate ? "u8bit_decode_accumulate_1" : "u8bit_decode_1", cuda::gridFor(n),
               Kernel1<kAccumulate>{frame});
  cuda::launch(stream, kAccumulate ? "u8bit_decode_accumulate_2" : "u8bit_decode_2", cuda::gridFor(n / 16),
               Kernel2<kAccumulate>{frame});
  return arena.bytes();
}

inline size_t maxEncodedBytes(const double* values, size_t count) {
  return count == 0 ? 0 : bound(count, parameters(values));
}

inline size_t encodeScratchBytes(const double* values, size_t count) {
  return encodeWith<false>(nullptr, count, 0, parameters(values), nullptr);
}

inline size_t decodeScratchBytes(const double* values, size_t count, size_t capacity) {
  return decodeWith<false>(nullptr, count, capacity, parameters(values), nullptr);
}

inline void encode(const cuda::CudaEncode& call, cuda::Stream stream) {
  if (call.count == 0) {
    cuda::launch(stream, "u8bit_nothing", 1, cuda::Nothing{call.messageBytes, nullptr, 0});
    cuda::launch(stream, "u8bit_nothing", 1, cuda::Nothing{call.error, nullptr, 0});
    return;
  }
  if (call.before != nullptr) {
    encodeWith<true>(&call, call.count, call.agreedBytes, parameters(call.params), stream);
  } else {
    encodeWith<false>(&call, call.count, call.agreedBytes, parameters(call.params), stream);
  }
}

inline void decode(const cuda::CudaDecode& call, cuda::Stream stream) {
  if (call.count == 0) {
    cuda::launch(stream, "u8bit_nothing", 1, cuda::Nothing{call.error, call.payloadBytes, call.capacity});
  } else if (call.accumulate != 0) {
    decodeWith<true>(&call, call.count, call.capacity, parameters(call.params), stream);
  } else {
    decodeWith<false>(&call, call.count, call.capacity, parameters(call.params), stream);
  }
}

inline size_t sumScratchBytes(size_t number, size_t count) {
  cuda::Arena arena(nullptr);
  arena.take<decoding::Frame>(cuda::kMostSummed);
  if (number > cuda::kMostSummed) arena.take<float>(count);
  return arena.bytes();
}

inline void sum(const cuda::CudaSum& call, cuda::Stream stream) {
  using namespace decoding;
  cuda::Arena arena(call.scratch);
  Frame* const frames = arena.take<Frame>(cuda::kMostSummed);
  auto* const partial = arena.take<float>(call.count);  // of more contributions than one kernel takes
  Frame initial;
  initial.n = call.count;
  initial.params = parameters(call.params);
  initial.capacity = call.capacity;
  for (size_t first = 0; first < call.number; first += cuda::kMostSummed) {
    const cuda::Contributions part = cuda::contributionsFrom(call, first, partial);
    cuda::launch(stream, "u8bit_sum_0", part.number, Sum0{frames, initial, part});
    cuda::launch(stream, "u8bit_sum_1", cuda::gridFor(call.count), Sum1{frames, part});
  }
}

inline const char* refusal(uint32_t error) {
  static const char* const reasons[] = {"none", "the payload has more bytes than there is room for",
                                        "'scale' is not in the payload as it must be",
                                        "'code' is not in the payload as it must be",
                                        "the payload is longer than its fields"};
  constexpr size_t known = sizeof(reasons) / sizeof(reasons[0]);
  return error < known ? reasons[error] : "unknown";
}

}  // namespace hipress::generated_cuda::codec_u8bit

extern "C" __attribute__((visibility("default"))) const hipress::cuda::CudaCodec* hipress_cuda_codec_u8bit() {
  namespace codec = hipress::generated_cuda::codec_u8bit;
  static const hipress::cuda::CudaCodec table{"u8bit",
                                              codec::kernels,
                                              1,
                                              4,
                                              &codec::maxEncodedBytes,
                                              &codec::encodeScratchBytes,
                                              &codec::decodeScratchBytes,
                                              &codec::encode,
                                              &codec::decode,
                                              &codec::refusal,
                                              &codec::sumScratchBytes,
                                              &codec::sum,
                                              nullptr,
                                              nullptr,
                                              nullptr,
                                              nullptr};
  return &table;
}
