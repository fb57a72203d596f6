// Orders D = m 2^k with m = 12, 20, 28, 36: H_m kron H_(2^k), the stage of order m on whole vectors first.
// The additions of the stage, their order included, are those of whvi/ops/orders.py (paley.h).

// a + b, every other time on the multiplier's ports (exactly, as 1 * b + a): the adders alone would be the bottleneck.
template <int kTurn, class V>
WHVI_INLINE V plus(V a, V b) {
#if defined(WHVI_HAS_FMA)
  if constexpr (kTurn % 2) return exact_multiply_add(b, V{} + 1, a);
#endif
  return a + b;
}

template <class P, int kSum, class V, size_t... I>
WHVI_INLINE V added(const V* values, std::index_sequence<I...>) {
  V sum = values[P::sums[kSum][1]];
  ((sum = plus<kSum + I>(sum, values[P::sums[kSum][2 + I]])), ...);
  return sum;
}
template <class P, int kSum, class V>
WHVI_INLINE V added(const V* values) {
  return added<P, kSum>(values, std::make_index_sequence<P::sums[kSum][0] - 1>{});
}

// Half of the stage: the rows of the result that come from all sums (or all differences) `x`, of which x[0] is the border.
// `own(i)` is what row i has besides, `put(i, row)` takes it.
template <class P, class V, int N, class Own, class Put, size_t... K, size_t... I>
WHVI_INLINE void paley_half(const V (&x)[N], const Own& own, const Put& put, std::index_sequence<K...>, std::index_sequence<I...>) {
  V values[N - 1 + P::kPairs] = {x[I + 1]...};
  ((values[N - 1 + K] = plus<K>(values[P::pairs[K][0]], values[P::pairs[K][1]])), ...);
  const V all = added<P, N - 1>(values), rest = x[0] - all;
  put(0, all + own(0));
  (put(I + 1, exact_multiply_add(plus<I>(added<P, I>(values), own(I + 1)), V{} + 2, rest)), ...);
}

// H_M across one vector each of M streams `from` elements apart in src, into streams `to` apart in dst, times `factor`
// where it is given (streams `step` apart) and `scale`. src and dst equal, with the same distance, or disjoint.
template <int M, int W, bool kTimes, class S, class T>
__attribute__((noinline)) void paley_column(const S* src, int64_t from, T* dst, int64_t to, const T* factor, int64_t step, T scale) {
  using V = Vec<T, W>;
  using P = Paley<M>;
  using In = Memory<W, S>;
  using Out = Memory<W, T>;
  constexpr int N = M / 2;
  V sum[N], difference[N];
#pragma GCC unroll 18
  for (int i = 0; i < N; ++i) {
    const V u = In::load(src + 2 * i * from), v = In::load(src + (2 * i + 1) * from);
    sum[i] = u + v;
    difference[i] = u - v;
  }
  const auto put = [&](int64_t row, V value) __attribute__((always_inline)) {
    if (kTimes) value = value * Out::load(factor + row * step) * scale;
    Out::store(dst + row * to, value);
  };
  const auto pairs = std::make_index_sequence<P::kPairs>{};
  const auto rows = std::make_index_sequence<N - 1>{};
  const V first_sum = sum[0], first_difference = difference[0];
  paley_half<P>(
      sum, [&](int i) __attribute__((always_inline)) { return i ? In::load(src + 2 * i * from) : first_difference; },
      [&](int i, V value) __attribute__((always_inline)) { put(2 * i, value); }, pairs, rows);
  paley_half<P>(
      difference, [&](int i) __attribute__((always_inline)) { return -(i ? In::load(src + (2 * i + 1) * from) : first_sum); },
      [&](int i, V value) __attribute__((always_inline)) { put(2 * i + 1, value); }, pairs, rows);
}

template <class S, class T>
using PaleyColumn = void (*)(const S* src, int64_t from, T* dst, int64_t to, const T* factor, int64_t step, T scale);

template <int W, bool kTimes, class S, class T>
PaleyColumn<S, T> paley_column_of(int m) {
  return m == 12   ? paley_column<12, W, kTimes, S, T>
         : m == 20 ? paley_column<20, W, kTimes, S, T>
         : m == 28 ? paley_column<28, W, kTimes, S, T>
                   : paley_column<36, W, kTimes, S, T>;
}

// H of each piece of at most kMost vectors in a row of `size` = m * piece elements: `read(r, at)` gives some vectors from
// place `at` on, `write(r, at)` takes them. m is a multiple of four, so that up to four pieces are in registers at a time.
template <class T, int W, int kMost, int M = 1, class Read, class Write>
WHVI_INLINE void pieces(int64_t size, int64_t piece, const Read& read, const Write& write) {
  if constexpr (M <= kMost) {
    if (piece != (int64_t)M * W) return pieces<T, W, kMost, 2 * M>(size, piece, read, write);
    constexpr int kVectors = 4 * M < kRegisters ? 4 * M : kRegisters;
    for (int64_t at = 0; at < size; at += kVectors * W) {
      Vec<T, W> r[kVectors];
      read(r, at);
      register_levels<T, W, kVectors, M / 2, false>(r);
      lane_levels<T, W, kVectors, W / 2>(r);
      write(r, at);
    }
  }
}

// Calls f with the number of lanes that a row of pieces of so many elements is computed with: a full vector, a narrower one
// for short pieces, or one. Types of 16 bits make do with fewer instances of the code.
template <class S, int W = kVectorBytes / (int)sizeof(Compute<S>), class F>
void with_lanes(int64_t piece, F&& f) {
  if (piece >= W) return f(std::integral_constant<int, W>{});
  if constexpr (sizeof(S) == 2 ? W > 8 : W > 2) with_lanes<S, W / 2>(piece, f);
  else f(std::integral_constant<int, 1>{});
}
template <class S>
constexpr int kNarrow = sizeof(S) == 2 ? 4 : 1;  // vectors of a piece that fewer lanes serve
