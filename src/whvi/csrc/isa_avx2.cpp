// AVX2 with FMA and F16C (every x86-64 processor with AVX2 since 2013 has the three).
#include "standard.h"
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif
#define WHVI_NAMESPACE avx2
#define WHVI_NAME "avx2"
#define WHVI_VECTOR_BYTES 32
#define WHVI_REGISTERS 8
#define WHVI_HAS_FMA
#include "table.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
