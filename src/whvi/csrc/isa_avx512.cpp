// AVX-512 F, BW, DQ, VL. With WHVI_EMULATE_AVX512 the same algorithm (16 lanes, 16 registers) is compiled for narrower
// vectors, so that it can be tested on a processor without AVX-512.
#include "standard.h"
#if defined(__x86_64__)
#define WHVI_NAMESPACE avx512
#define WHVI_NAME "avx512"
#define WHVI_VECTOR_BYTES 64
#define WHVI_REGISTERS 16
#if !defined(WHVI_EMULATE_AVX512)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prefer-vector-width=512")
#endif
#define WHVI_HAS_FMA
#define WHVI_HAS_AVX512
#endif
#include "table.h"
#if defined(__clang__) && !defined(WHVI_EMULATE_AVX512)
#pragma clang attribute pop
#endif
#endif
