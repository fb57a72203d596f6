// The plain transform y = scale * H x on contiguous rows.

template <class S>
struct Transform {
  using T = Compute<S>;
  static constexpr int W = kVectorBytes / (int)sizeof(T);
  static constexpr int N = kRegisters;
  static constexpr int64_t kBlock = (int64_t)W * N;

  // The last block of registers: from -> y. `next` is where the next row will be read.
  template <bool kScaled>
  WHVI_INLINE void finish(Vec<T, W> (&r)[N], S* y, T scale, const S* next) {
#pragma GCC unroll 16
    for (int i = 0; i < (int)(kBlock * sizeof(S)) / 64; ++i) __builtin_prefetch((const char*)next + i * 64, 0, 2);
    hadamard<T, W, N>(r);
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) Memory<W, S>::store(y + i * W, kScaled ? r[i] * scale : r[i]);
  }
  template <bool kScaled>
  WHVI_INLINE void one_block(const T* from, S* y, T scale, const S* next) {
    Vec<T, W> r[N];
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) r[i] = Memory<W, T>::load(from + i * W);
    finish<kScaled>(r, y, scale, next);
  }
  // Two blocks at a distance of one: reading twice is cheaper than another pass through scratch.
  template <bool kScaled, class P>
  WHVI_INLINE void two_blocks(const P* from, S* y, T scale, const S* next) {
    using M = Memory<W, P>;
    Vec<T, W> sum[N], difference[N];
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) sum[i] = M::load(from + i * W) + M::load(from + kBlock + i * W);
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) difference[i] = M::load(from + i * W) - M::load(from + kBlock + i * W);
    finish<kScaled>(sum, y, scale, next);
    finish<kScaled>(difference, y + kBlock, scale, next + kBlock);
  }

  // Finish a subtree whose larger distances are done.
  template <bool kScaled>
  static void descend(T* work, S* y, int64_t size, T scale, const S* next) {
    const int radix = top_radix<T>(size, kBlock);
    const int64_t child = size / radix;
    with_radix(radix, [&](auto R) { strided_pass<W, R>(work, child); });
    children<kScaled>(work, child, y, child, radix, scale, next);
  }
  template <bool kScaled>
  WHVI_INLINE void children(T* work, int64_t step, S* y, int64_t child, int radix, T scale, const S* next) {
    if (child == kBlock)
      for (int i = 0; i < radix; ++i) one_block<kScaled>(work + i * step, y + i * child, scale, next + i * child);
    else if (child == 2 * kBlock)
      for (int i = 0; i < radix; ++i) two_blocks<kScaled>(work + i * step, y + i * child, scale, next + i * child);
    else
      for (int i = 0; i < radix; ++i) descend<kScaled>(work + i * step, y + i * child, child, scale, next + i * child);
  }

  // Rows longer than a block: the strided pass at the top reads x, the blocks at the bottom write y, both just once;
  // all between happens in scratch.
  template <bool kScaled>
  static void large(const S* x, S* y, int64_t rows, int64_t size, T scale) {
    if (size == 2 * kBlock) {  // x == y is safe: a row is read before it is written
      for (int64_t row = 0; row < rows; ++row, x += size, y += size) two_blocks<kScaled>(x, y, scale, x);
      return;
    }
    const int radix = top_radix<T>(size, kBlock);
    const int64_t child = size / radix, step = child + kShift<T>;
    T* work = (T*)allocate((size_t)(radix * step) * sizeof(T));
    for (int64_t row = 0; row < rows; ++row, x += size, y += size) {
      const S* next = row + 1 < rows ? x + size : x;
      with_radix(radix, [&](auto R) { strided_pass<W, R>(x, child, work, step, child); });
      children<kScaled>(work, step, y, child, radix, scale, next);
    }
    release(work);
  }

  // Rows of D <= kBlock elements lie back to back: one block of registers holds several rows.
  template <int D>
  static void small(const S* x, S* y, int64_t rows, T scale) {
    constexpr int kLanes = D < W ? D : W;
    constexpr int kVectors = D < W ? 1 : D / W;
    const int64_t total = rows * D;
    int64_t at = 0;
    for (; at + kBlock <= total; at += kBlock) small_block<kVectors, kLanes>(x + at, y + at, scale);
    if (at < total) {  // the ragged end goes through a padded block
      S in[kBlock] = {}, out[kBlock];
      __builtin_memcpy(in, x + at, (size_t)(total - at) * sizeof(S));
      small_block<kVectors, kLanes>(in, out, scale);
      __builtin_memcpy(y + at, out, (size_t)(total - at) * sizeof(S));
    }
  }
  template <int kVectors, int kLanes>
  WHVI_INLINE void small_block(const S* x, S* y, T scale) {
    Vec<T, W> r[N];
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) r[i] = Memory<W, S>::load(x + i * W);
    register_levels<T, W, N, kVectors / 2, false>(r);
    lane_levels<T, W, N, kLanes / 2>(r);
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) Memory<W, S>::store(y + i * W, r[i] * scale);
  }

  template <int D>
  static void choose(const S* x, S* y, int64_t rows, int64_t size, T scale) {
    if constexpr (D <= kBlock) {
      if (size == D) small<D>(x, y, rows, scale);
      else choose<2 * D>(x, y, rows, size, scale);
    } else {
      if (scale == 1) large<false>(x, y, rows, size, scale);
      else large<true>(x, y, rows, size, scale);
    }
  }

  // Rows of m > 1 pieces: the stage of order m reads x, the pieces write y; between them is a row of scratch. K lanes at a
  // time, so that a vector lies within a piece.
  template <int K>
  static void orders(const S* x, S* y, int64_t rows, int64_t size, int m, T scale) {
    constexpr int kMost = K == W ? N / 2 : kNarrow<S>;
    const int64_t piece = size / m, step = piece <= kMost * K ? piece : piece + kShift<T>;
    const auto column = paley_column_of<K, false, S, T>(m);
    T* work = (T*)allocate((size_t)(m * step) * sizeof(T));
    for (int64_t row = 0; row < rows; ++row, x += size, y += size) {
      const S* next = row + 1 < rows ? x + size : x;
      for (int64_t j = 0; j < piece; j += K) column(x + j, piece, work + j, step, nullptr, 0, 1);
      if constexpr (K == W) {
        if (piece >= kBlock) {
          children<true>(work, step, y, piece, m, scale, next);
          continue;
        }
      }
      const auto read = [&](auto& r, int64_t at) __attribute__((always_inline)) {
#pragma GCC unroll 16
        for (size_t i = 0; i < sizeof r / sizeof *r; ++i) r[i] = Memory<K, T>::load(work + at + i * K);
      };
      const auto write = [&](auto& r, int64_t at) __attribute__((always_inline)) {
#pragma GCC unroll 16
        for (size_t i = 0; i < sizeof r / sizeof *r; ++i) {
          __builtin_prefetch(next + at + i * K, 0, 2);
          Memory<K, S>::store(y + at + i * K, r[i] * scale);
        }
      };
      pieces<T, K, kMost>(size, piece, read, write);
    }
    release(work);
  }

  static void run(const void* x, void* y, int64_t rows, int64_t size, double scale) {
    const int m = factor_of(size);
    if (m == 1) return choose<1>((const S*)x, (S*)y, rows, size, (T)scale);
    with_lanes<S>(size / m, [&](auto K) { orders<K>((const S*)x, (S*)y, rows, size, m, (T)scale); });
  }
};
