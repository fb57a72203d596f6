// The Walsh-Hadamard butterflies (a, b) -> (a + b, a - b) in registers.
// One fixed order of stages everywhere, from the largest distance to 1: radix, vector width and thread count do
// not change a bit of the plain transform.

static constexpr int log2_of(int64_t n) { return n <= 1 ? 0 : 1 + log2_of(n / 2); }

// Lane level: distance H < W inside each vector, as swap + (x * +-1 + swapped).
template <class T, int W, int H, size_t... I>
WHVI_INLINE Vec<T, W> lane_level(Vec<T, W> v, std::index_sequence<I...>) {
  const Vec<T, W> sign = {(T)((I & H) ? -1 : 1)...};
  const Vec<T, W> swapped = __builtin_shufflevector(v, v, (int)(I ^ H)...);
  return exact_multiply_add(v, sign, swapped);
}

// Lane levels of distance H, H/2, ..., 1 on N vectors.
template <class T, int W, int N, int H>
WHVI_INLINE void lane_levels(Vec<T, W> (&r)[N]) {
  if constexpr (H >= 1) {
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) r[i] = lane_level<T, W, H>(r[i], std::make_index_sequence<W>{});
    lane_levels<T, W, N, H / 2>(r);
  }
}

// Register levels of distance H, H/2, ..., 1 vectors on N vectors. kSpread takes the differences on the multiplier's ports
// (exactly, as -1 * b + a), where the adders alone would be the bottleneck: in passes without lane levels.
template <class T, int W, int N, int H, bool kSpread>
WHVI_INLINE void register_levels(Vec<T, W> (&r)[N]) {
  if constexpr (H >= 1) {
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) {
      if ((i & H) == 0) {
        const Vec<T, W> a = r[i], b = r[i + H];
        r[i] = a + b;
        r[i + H] = kSpread ? exact_multiply_add(b, Vec<T, W>{} - 1, a) : a - b;
      }
    }
    register_levels<T, W, N, H / 2, kSpread>(r);
  }
}
template <class T, int W, int N>
WHVI_INLINE void register_levels(Vec<T, W> (&r)[N]) {
  register_levels<T, W, N, N / 2, true>(r);
}

// H of N * W consecutive elements held in N vectors.
template <class T, int W, int N>
WHVI_INLINE void hadamard(Vec<T, W> (&r)[N]) {
  register_levels<T, W, N, N / 2, false>(r);
  lane_levels<T, W, N, W / 2>(r);
}

// One strided pass: H_R across R streams that lie `from` elements apart in src and `to` apart in dst.
template <int W, int R, class S, class T>
WHVI_INLINE void strided_pass(const S* src, int64_t from, T* dst, int64_t to, int64_t count) {
  for (int64_t j = 0; j < count; j += W) {
    Vec<T, W> r[R];
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) r[i] = Memory<W, S>::load(src + j + i * from);
    register_levels<T, W, R>(r);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) Memory<W, T>::store(dst + j + i * to, r[i]);
  }
}
template <int W, int R, class T>
WHVI_INLINE void strided_pass(T* a, int64_t distance) {  // in place
  strided_pass<W, R>(a, distance, a, distance, distance);
}

// Calls f with the radix R = 2, 4 or 8 as a compile-time constant.
template <class F>
WHVI_INLINE void with_radix(int radix, F&& f) {
  if (radix == 8) f(std::integral_constant<int, 8>{});
  else if (radix == 4) f(std::integral_constant<int, 4>{});
  else f(std::integral_constant<int, 2>{});
}

// A row of `size` elements is a tree: a node splits into `radix` children until they are blocks that fit the registers.
// Nodes larger than a first-level cache first split down to half of it, with the smallest radix at the top, where the
// streams are longest; the rest of the work on such a child stays in the cache.
template <class T>
WHVI_INLINE int top_radix(int64_t size, int64_t block) {
  constexpr int64_t kCache = 32768 / (int64_t)sizeof(T);
  const bool spills = size > kCache;
  const int64_t ratio = size / (spills ? kCache / 2 : block);
  const int odd = log2_of(ratio) % 3;
  if (spills && odd) return 1 << odd;
  return ratio >= 8 ? 8 : (int)ratio;
}

// The children of the root lie a cache line further apart in scratch than in the row: at distances of a power of two
// they would compete for the same few sets of the cache.
template <class T>
constexpr int64_t kShift = 64 / (int64_t)sizeof(T);
