// Standard headers of the kernels, included before any target pragma so that they are compiled for the baseline.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>
#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

// Small pieces must melt into their callers: a call would send vectors through memory.
#define WHVI_INLINE static inline __attribute__((always_inline))
