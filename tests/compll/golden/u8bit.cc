// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from compll/algorithms/u8bit.cll.
#include "core/codec/generated_codec.h"
#include "core/ops/cpu/generated.h"

extern "C" const hipress::cuda::CudaCodec* hipress_cuda_codec_u8bit();

namespace hipress::generated::codec_u8bit {
namespace {

using namespace hipress::ops;

const GeneratedCodecInterface& interface() {
  static const GeneratedCodecInterface face{
      "u8bit",
      33u,
      "8 bits of a dynamic tree for each value of a block (Dettmers, 2016; Dettmers et al., 2022). Behind "
      "the sign, zeros up to the first 1 count decades, and the bits after it divide the decade evenly.",
      {{"block", "4096",
        "How many values share a scale, which is the greatest magnitude: int in [16, 16777216]"},
       {"error_feedback", "false", "Keep what rounding dropped and add it to the next gradient: bool"}},
      {{"residual", 1}},
      ""};
  return face;
}

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
  Parallel* parallel = nullptr;
  ops::Scratch scratch;
  std::atomic<int64_t> bad{0};
  const float* gradient = nullptr;
  float scale = 1;
  ops::RandomKey random;
  bool stream = false;
  uint8_t* message = nullptr;
  size_t bytes = 0;
  size_t n_scale = 0;
  float* v_scale = nullptr;
  size_t o_0 = 0;
  size_t o_1 = 0;
  const float* before_residual = nullptr;
  float* after_residual = nullptr;
};

template <bool kStates>
inline int32_t at_magnitude_first([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
inline float at_magnitude_middles([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
inline float at_magnitude([[maybe_unused]] const Frame* f, int32_t i);

template <bool kStates>
inline int32_t at_magnitude_first([[maybe_unused]] const Frame* f, int32_t i) {
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
inline float at_magnitude_middles([[maybe_unused]] const Frame* f, int32_t i) {
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
inline float at_magnitude([[maybe_unused]] const Frame* f, int32_t i) {
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

template <bool kStates>
struct Loop0 {
  template <IsaLevel level>
  struct Kernel {
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      [[maybe_unused]] int64_t allBad = 0;
      [[maybe_unused]] const auto p_block = f->params.p_block;
      const auto size = static_cast<size_t>(ops::atLeastOne(p_block));
      const float scale = f->scale;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      ops::Scratch scratch;
      float* const partials_scale = scratch.template take<float>(size / ops::kReduceBlock + 1);
      const size_t together = size * ops::blocksTogether(size);
      [[maybe_unused]] const size_t ahead = together <= ops::kTogether ? together : 0;
      for (size_t from = begin; from < end; from += together) {
        const size_t until = std::min(end, from + together);
        float s_x100001[ops::kMostTogether];
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          RunReducer<level, float, ops::Greatest> reduce_scale(partials_scale, ops::Greatest{});
          for (size_t tile = first; tile < last; tile += kBlockTile) {
            [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
            const float* const gradient = f->gradient + tile;
            const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
            auto group_reduce_scale = reduce_scale.lanes();
            const size_t whole = count / kLanes * kLanes;
            for (size_t group = 0; group < whole; group += kLanes) {
              alignas(64) float lanes_x4[kLanes];
#pragma GCC ivdep
              for (size_t lane = 0; lane < kLanes; ++lane) {
                const size_t i = group + lane;
                [[maybe_unused]] const float x1 = gradient[i] * scale;
                [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
                [[maybe_unused]] const float x3 = (x1 + x2);
                [[maybe_unused]] const float x4 = ops::absolute(x3);
                lanes_x4[lane] = x4;
              }
              group_reduce_scale.combine(lanes_x4);
            }
            group_reduce_scale.store();
            reduce_scale.combined(whole);
            if (whole != count) {
              alignas(64) float lanes_x4[kLanes];
              for (size_t lane = 0; lane < count - whole; ++lane) {
                const size_t i = whole + lane;
                [[maybe_unused]] const float x1 = gradient[i] * scale;
                [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
                [[maybe_unused]] const float x3 = (x1 + x2);
                [[maybe_unused]] const float x4 = ops::absolute(x3);
                lanes_x4[lane] = x4;
              }
              reduce_scale.feed(lanes_x4, count - whole);
            }
          }
          f->v_scale[block] = ops::Greatest{}(0x1.0000000000000p-149f, reduce_scale.finish());
        }
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          [[maybe_unused]] const float b_scale = f->v_scale[block];
          [[maybe_unused]] const float x100001 = b_scale;
          ops::putScalar(f->message + f->o_0 + 4 * block, static_cast<float>(x100001));
          s_x100001[block - from / size] = x100001;
        }
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          const float x100001 = s_x100001[block - from / size];
          for (size_t tile = first; tile < last; tile += kBlockTile) {
            [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
            if (ahead != 0) prefetchElements(f->gradient + tile + ahead, count);
            if (kStates && ahead != 0) prefetchElements(f->before_residual + tile + ahead, count);
            const float* const gradient = f->gradient + tile;
            const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
            struct {
              alignas(64) float x10[kBlockTile + kApart];
              alignas(64) uint8_t codes_x9[kBlockTile + kApart];
            } t;
            int32_t greatest = 0;
#pragma GCC ivdep
            for (size_t i = 0; i < count; ++i) {
              [[maybe_unused]] const float x1 = gradient[i] * scale;
              [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
              [[maybe_unused]] const float x3 = (x1 + x2);
              [[maybe_unused]] const float x4 = (ops::absolute(x3) / x100001);
              [[maybe_unused]] const int32_t x5 = at_magnitude_first<kStates>(
                  f,
                  ops::lesser(ops::greater(ops::subtractInt(ops::shiftRight(ops::bitsOf(x4), 17), 6729), 0),
                              1397));
              [[maybe_unused]] const int32_t x6 = ops::multiplyInt(
                  ops::addInt(x5, static_cast<int32_t>((x4 > at_magnitude_middles<kStates>(f, x5)))),
                  static_cast<int32_t>((x4 == x4)));
              [[maybe_unused]] const int32_t x7 = x6;
              [[maybe_unused]] const float x8 = (at_magnitude<kStates>(f, x7) * x100001);
              [[maybe_unused]] const int32_t x9 =
                  ops::toUint(((x3 < 0x0.0p+0f) ? ops::addInt(x7, 128) : x7), 8u);
              [[maybe_unused]] const float x10 = (x3 - ((x3 < 0x0.0p+0f) ? (-x8) : x8));
              greatest = ops::greaterMagnitude(greatest, kStates ? x10 : x1);
              if (kStates) t.x10[i] = x10;
              t.codes_x9[i] = static_cast<uint8_t>(x9);
            }
            allBad += ops::isFiniteMagnitude(greatest) ? 0 : 1;
            if (kStates) storeTile<level>(f->after_residual + tile, t.x10, count, f->stream);
            packTile<level>(t.codes_x9, count, 8u, f->message + f->o_1, tile);
          }
        }
      }
      if (kStates && f->stream) streamFence();
      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

}  // namespace encoding

namespace decoding {

struct Frame {
  size_t n = 0;
  Params params;
  Parallel* parallel = nullptr;
  ops::Scratch scratch;
  std::atomic<int64_t> bad{0};
  float* output = nullptr;
  size_t n_scale = 0;
  const float* v_scale = nullptr;
  size_t n_code = 0;
  const uint8_t* v_code = nullptr;
};

template <bool kAccumulate>
inline float at_scale([[maybe_unused]] const Frame* f, int32_t i);
template <bool kAccumulate>
inline float at_magnitude([[maybe_unused]] const Frame* f, int32_t i);

template <bool kAccumulate>
inline float at_scale([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_scale) return {};
  [[maybe_unused]] const float x1 = f->v_scale[i];
  return x1;
}

template <bool kAccumulate>
inline float at_magnitude([[maybe_unused]] const Frame* f, int32_t i) {
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
struct Loop0 {
  template <IsaLevel level>
  struct Kernel {
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      [[maybe_unused]] int64_t allBad = 0;
      [[maybe_unused]] const auto p_block = f->params.p_block;
      const auto size = static_cast<size_t>(ops::atLeastOne(p_block));
      const ops::LookUp<level, float, 128> look_magnitude(
          [&](int32_t i) { return at_magnitude<kAccumulate>(f, i); });
      for ([[maybe_unused]] size_t first = begin, block = begin / size; first < end; first += size, ++block) {
        [[maybe_unused]] const size_t last = std::min(end, first + size);
        [[maybe_unused]] const float x100001 = at_scale<kAccumulate>(f, static_cast<int32_t>(block));
        for (size_t tile = first; tile < last; tile += kBlockTile) {
          [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
          float* const output = f->output + tile;
          prefetchElements(output + kBlockTile, count);
          alignas(64) int32_t u_code[kBlockTile];
          unpackTile<level>(f->v_code, tile, count, 8u, u_code);
          alignas(64) int32_t s_x2[kBlockTile + kApart];
#pragma GCC ivdep
          for (size_t i = 0; i < count; ++i) {
            [[maybe_unused]] const int32_t x1 = u_code[i];
            [[maybe_unused]] const int32_t x2 = (x1 & 127);
            s_x2[i] = x2;
          }
          alignas(64) float s_x3[kBlockTile + kApart];
          look_magnitude(s_x2, count, s_x3);
#pragma GCC ivdep
          for (size_t i = 0; i < count; ++i) {
            [[maybe_unused]] const int32_t x1 = u_code[i];
            const float x3 = s_x3[i];
            [[maybe_unused]] const float x4 = (x3 * x100001);
            [[maybe_unused]] const float x5 = ((x1 < 128) ? x4 : (-x4));
            output[i] = kAccumulate ? output[i] + x5 : x5;
          }
        }
      }

      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

}  // namespace decoding

class U8bitCodec final : public GeneratedCodec {
 public:
  U8bitCodec(const CodecOptions& given, const Params& values, bool keepsStates)
      : GeneratedCodec(interface(), given, keepsStates), params(values), options(given) {}

  std::shared_ptr<const Codec> forAggregate() const override {
    if (params.p_gradient_factor == 1.0f) return nullptr;
    Params merged = params;
    merged.p_gradient_factor = 0x1.0000000000000p+0f;
    return std::make_shared<U8bitCodec>(options, merged, !states().empty());
  }

  std::vector<double> parameters() const override {
    return {static_cast<double>(params.p_block), static_cast<double>(params.p_error_feedback),
            static_cast<double>(params.p_residual_factor), static_cast<double>(params.p_gradient_factor)};
  }
  float gradientFactor() const override { return params.p_gradient_factor; }
  const cuda::CudaCodec* kernels() const override { return hipress_cuda_codec_u8bit(); }

 protected:
  size_t bound(size_t n) const override {
    [[maybe_unused]] const size_t n_magnitude = ops::asCount(128);
    [[maybe_unused]] const size_t n_magnitude_middles = ops::asCount(127);
    [[maybe_unused]] const size_t n_magnitude_first = ops::asCount(1398);
    [[maybe_unused]] const size_t n_scale = ops::blockCount(n, ops::atLeastOne(params.p_block));
    [[maybe_unused]] const size_t most_scale = ops::blockCount(n, ops::atLeastOne(params.p_block));
    return ops::packedBytes(most_scale, 32u) + ops::packedBytes(n, 8u);
  }

  size_t encodeValues(std::span<const float> input, const EncodeStates& states, const EncodeContext& context,
                      Bytes output) const override {
    return states.before.empty() ? encodeWith<false>(input, states, context, output)
                                 : encodeWith<true>(input, states, context, output);
  }

  void decodePayload(ConstBytes payload, std::span<float> output, DecodeMode mode,
                     Parallel* parallel) const override {
    return mode == DecodeMode::kAccumulate ? decodeWith<true>(payload, output, parallel)
                                           : decodeWith<false>(payload, output, parallel);
  }

 private:
  template <bool kStates>
  size_t encodeWith(std::span<const float> input, [[maybe_unused]] const EncodeStates& states,
                    const EncodeContext& context, Bytes output) const {
    using namespace encoding;
    Frame f;
    f.n = input.size();
    f.params = params;
    f.parallel = context.parallel;
    f.gradient = input.data();
    f.scale = context.scale;
    f.random = {context.seed, context.step, context.tensor, context.firstElement};
    f.stream = input.size() >= ops::kStreamFrom;
    f.message = reinterpret_cast<uint8_t*>(output.data());
    f.before_residual = kStates ? states.before[0] : nullptr;
    f.after_residual = kStates ? states.after[0] : nullptr;
    f.n_scale = ops::blockCount(f.n, ops::atLeastOne(f.params.p_block));
    f.v_scale = f.scratch.template take<float>(f.n_scale);
    f.o_0 = 0;
    f.o_1 = ops::packedBytes(f.n_scale, 32u);
    {
      const ops::Chunks chunks(f.parallel, f.n, ops::blockAlignment(ops::atLeastOne(f.params.p_block)));
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop0<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    f.bytes = ops::packedBytes(f.n_scale, 32u) + ops::packedBytes(f.n, 8u);
    return f.bad.load(std::memory_order_relaxed) == 0 ? f.bytes : 0;
  }

  template <bool kAccumulate>
  void decodeWith(ConstBytes payload, std::span<float> output, Parallel* parallel) const {
    using namespace decoding;
    checkCount(output.size());
    Frame f;
    f.n = output.size();
    f.params = params;
    f.parallel = parallel;
    f.output = output.data();
    [[maybe_unused]] ops::PayloadReader reader(name(), payload, f.scratch);
    f.n_scale = reader.count("scale", ops::blocksOf(static_cast<int32_t>(f.n), f.params.p_block));
    f.v_scale = reader.template vector<float>("scale", f.n_scale);
    f.n_code = reader.count("code", static_cast<int32_t>(f.n));
    f.v_code = reader.packed("code", f.n_code, 8u);
    reader.finish();
    {
      const ops::Chunks chunks(f.parallel, f.n, ops::blockAlignment(ops::atLeastOne(f.params.p_block)));
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop0<kAccumulate>::template Kernel>(&f, begin, end, chunk);
      });
    }
  }

  const Params params;
  const CodecOptions options;
};

}  // namespace

CodecDescription describe() {
  return describeGenerated(interface());
}

CodecPointer create([[maybe_unused]] const CodecOptions& options) {
  Params params;
  params.p_block = static_cast<int32_t>(
      checkedOption(options, "block", options.integer("block"), Interval{16.0, 16777216.0, false, false}));
  params.p_error_feedback = options.boolean("error_feedback");
  params.p_residual_factor =
      static_cast<float>(checkedFactor(options, "residual_factor", Interval{0.0, 1.0, false, false}));
  params.p_gradient_factor =
      static_cast<float>(checkedFactor(options, "gradient_factor", Interval{0.0, 1.0, true, false}));
  return std::make_shared<U8bitCodec>(options, params, options.boolean("error_feedback"));
}

}  // namespace hipress::generated::codec_u8bit
