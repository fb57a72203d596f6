// Vectors of W lanes in GCC/Clang vector extensions, and the handful of operations those lack.
// Included once per instruction set, inside that set's namespace (see table.h).

template <class T, int W>
struct VecOf {
  typedef T type __attribute__((vector_size(sizeof(T) * W)));
};
template <class T, int W>
using Vec = typename VecOf<T, W>::type;

// A vector anywhere in memory. A memcpy would do the same, but where registers are short GCC sends it through the stack.
template <class V>
struct __attribute__((packed, may_alias)) Anywhere {
  V v;
};
template <class V, class P>
WHVI_INLINE V load_raw(const P* p) {
  return ((const Anywhere<V>*)p)->v;
}
template <class V, class P>
WHVI_INLINE void store_raw(P* p, V v) {
  ((Anywhere<V>*)p)->v = v;
}

// Vectors of n elements, then what is left one by one: `f(width, i)`.
template <int W, class F>
WHVI_INLINE void vectors(int64_t n, const F& f) {
  int64_t i = 0;
  for (; i + W <= n; i += W) f(std::integral_constant<int, W>{}, i);
  for (; i < n; ++i) f(std::integral_constant<int, 1>{}, i);
}

// a * b + c where a * b is exact (b = +-1), so that a fused and a separate multiplication give the same bits.
template <class V>
WHVI_INLINE V exact_multiply_add(V a, V b, V c) {
  return a * b + c;
}
#if defined(WHVI_HAS_FMA)
WHVI_INLINE Vec<float, 8> exact_multiply_add(Vec<float, 8> a, Vec<float, 8> b, Vec<float, 8> c) {
  return (Vec<float, 8>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
WHVI_INLINE Vec<double, 4> exact_multiply_add(Vec<double, 4> a, Vec<double, 4> b, Vec<double, 4> c) {
  return (Vec<double, 4>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
#endif
#if defined(WHVI_HAS_AVX512)
WHVI_INLINE Vec<float, 16> exact_multiply_add(Vec<float, 16> a, Vec<float, 16> b, Vec<float, 16> c) {
  return (Vec<float, 16>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
WHVI_INLINE Vec<double, 8> exact_multiply_add(Vec<double, 8> a, Vec<double, 8> b, Vec<double, 8> c) {
  return (Vec<double, 8>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
#endif

template <int W>
WHVI_INLINE Vec<float, W> square_root(Vec<float, W> v) {
  Vec<float, W> r;
  for (int i = 0; i < W; ++i) r[i] = __builtin_sqrtf(v[i]);
  return r;
}
// Products of the even 32-bit lanes: 64-bit lanes in, the upper halves of the inputs are ignored.
template <int W>
WHVI_INLINE Vec<uint64_t, W / 2> multiply_even(Vec<uint64_t, W / 2> a, Vec<uint64_t, W / 2> b) {
  return (a & 0xffffffffu) * (b & 0xffffffffu);
}
#if defined(__SSE2__)
template <>
inline __attribute__((always_inline)) Vec<float, 4> square_root<4>(Vec<float, 4> v) {
  return (Vec<float, 4>)_mm_sqrt_ps((__m128)v);
}
template <>
inline __attribute__((always_inline)) Vec<uint64_t, 2> multiply_even<4>(Vec<uint64_t, 2> a, Vec<uint64_t, 2> b) {
  return (Vec<uint64_t, 2>)_mm_mul_epu32((__m128i)a, (__m128i)b);
}
#endif
#if defined(WHVI_HAS_FMA)
template <>
inline __attribute__((always_inline)) Vec<float, 8> square_root<8>(Vec<float, 8> v) {
  return (Vec<float, 8>)_mm256_sqrt_ps((__m256)v);
}
template <>
inline __attribute__((always_inline)) Vec<uint64_t, 4> multiply_even<8>(Vec<uint64_t, 4> a, Vec<uint64_t, 4> b) {
  return (Vec<uint64_t, 4>)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}
#endif
#if defined(WHVI_HAS_AVX512)
template <>
inline __attribute__((always_inline)) Vec<float, 16> square_root<16>(Vec<float, 16> v) {
  return (Vec<float, 16>)_mm512_sqrt_ps((__m512)v);
}
template <>
inline __attribute__((always_inline)) Vec<uint64_t, 8> multiply_even<16>(Vec<uint64_t, 8> a, Vec<uint64_t, 8> b) {
  return (Vec<uint64_t, 8>)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}
#endif

// Storage formats: elements live in memory as S and are computed with as Compute<S>.
struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};
template <class S>
struct ComputeOf {
  using type = float;
};
template <>
struct ComputeOf<double> {
  using type = double;
};
template <class S>
using Compute = typename ComputeOf<S>::type;

template <int W, class S>
struct Memory {  // float and double: what is stored is what is computed with
  WHVI_INLINE Vec<S, W> load(const S* p) { return load_raw<Vec<S, W>>(p); }
  WHVI_INLINE void store(S* p, Vec<S, W> v) { store_raw(p, v); }
};

template <int W>
struct Memory<W, bf16> {
  WHVI_INLINE Vec<float, W> load(const bf16* p) {
    auto wide = __builtin_convertvector((load_raw<Vec<uint16_t, W>>(p)), Vec<uint32_t, W>) << 16;
    return (Vec<float, W>)wide;
  }
  WHVI_INLINE void store(bf16* p, Vec<float, W> v) {  // round to nearest even; a NaN stays a NaN
    auto bits = (Vec<uint32_t, W>)v;
    auto rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    auto nan = (Vec<uint32_t, W>)(v != v);
    auto chosen = (rounded & ~nan) | (((bits >> 16) | 0x40u) & nan);
    store_raw(p, __builtin_convertvector(chosen, Vec<uint16_t, W>));
  }
};

WHVI_INLINE float half_to_float(uint16_t h) {
  const uint32_t magnitude = h & 0x7fffu, sign = uint32_t(h & 0x8000u) << 16;
  uint32_t bits = magnitude << 13;
  float f;
  if (magnitude >= 0x7c00u) {  // infinity and NaN
    bits |= 0x7f800000u;
  } else {  // the product with 2^112 moves the exponent and normalises subnormals exactly
    __builtin_memcpy(&f, &bits, 4);
    f *= 0x1p112f;
    __builtin_memcpy(&bits, &f, 4);
  }
  bits |= sign;
  __builtin_memcpy(&f, &bits, 4);
  return f;
}
WHVI_INLINE uint16_t float_to_half(float f) {
  uint32_t bits;
  __builtin_memcpy(&bits, &f, 4);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return uint16_t(sign | 0x7e00u | ((bits >> 13) & 0x3ffu));
  if (bits >= 0x477ff000u) return uint16_t(sign | 0x7c00u);  // 65520 and more round to infinity
  if (bits < 0x38800000u) {  // subnormal half: adding 0.5 lets the float adder do the rounding
    float a;
    __builtin_memcpy(&a, &bits, 4);
    a += 0.5f;
    __builtin_memcpy(&bits, &a, 4);
    return uint16_t(sign | (bits - 0x3f000000u));
  }
  return uint16_t(sign | ((bits - 0x38000000u + 0xfffu + ((bits >> 13) & 1u)) >> 13));
}

template <int W>
struct Memory<W, f16> {
  WHVI_INLINE Vec<float, W> load(const f16* p) {
    Vec<float, W> v;
    for (int i = 0; i < W; ++i) v[i] = half_to_float(p[i].bits);
    return v;
  }
  WHVI_INLINE void store(f16* p, Vec<float, W> v) {
    for (int i = 0; i < W; ++i) p[i].bits = float_to_half(v[i]);
  }
};
#if defined(WHVI_HAS_FMA)
template <>
struct Memory<8, f16> {
  WHVI_INLINE Vec<float, 8> load(const f16* p) {
    return (Vec<float, 8>)_mm256_cvtph_ps(load_raw<__m128i>(p));
  }
  WHVI_INLINE void store(f16* p, Vec<float, 8> v) {
    store_raw(p, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};
#endif
#if defined(WHVI_HAS_AVX512)
template <>
struct Memory<16, f16> {
  WHVI_INLINE Vec<float, 16> load(const f16* p) {
    return (Vec<float, 16>)_mm512_cvtph_ps(load_raw<__m256i>(p));
  }
  WHVI_INLINE void store(f16* p, Vec<float, 16> v) {
    store_raw(p, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};
#endif
