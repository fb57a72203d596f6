// y + mean + std * eps on rows of any length, and the sums of its gradients. The noise is drawn a tile at a time into the
// first-level cache, in the order of the elements, so that short rows do not waste the generator's groups of 64.

template <class S>
struct BiasRunner {
  using T = Compute<S>;
  static constexpr int W = kVectorBytes / (int)sizeof(T);
  static constexpr int64_t kTile = 1024;

  template <int N>
  WHVI_INLINE Vec<T, N> widened(const float* p) {
    return __builtin_convertvector((load_raw<Vec<float, N>>(p)), Vec<T, N>);
  }
  template <int N>
  WHVI_INLINE void add(T* p, Vec<T, N> v) {
    store_raw(p, load_raw<Vec<T, N>>(p) + v);
  }

  // Elements [begin, end) of rows of b.size, in pieces that end with a row or a tile: `f(at, column, count, eps)`.
  template <class F>
  static void walk(const NoisyBias& b, bool drawn, int64_t begin, int64_t end, const F& f) {
    float eps[kTile];
    int64_t column = begin % b.size;
    for (int64_t at = begin; at < end;) {
      const uint64_t number = b.offset + (uint64_t)at;
      const int64_t whole = kTile - (int64_t)(number % Normals::kGroup);  // the next tile begins with a group
      const int64_t tile = at + whole < end ? at + whole : end;
      if (drawn) Normals::fill(b.seed, number, tile - at, eps);
      for (const float* e = eps; at < tile;) {
        const int64_t count = b.size - column < tile - at ? b.size - column : tile - at;
        f(at, column, count, e);
        at += count, e += count, column += count;
        if (column == b.size) column = 0;
      }
    }
  }

  static void forward(const NoisyBias& b, const void* in, const void* mean, void* out, int64_t begin, int64_t end) {
    const auto piece = [&](int64_t at, int64_t column, int64_t count, const float* eps) __attribute__((always_inline)) {
      const S* y = (const S*)in + at;
      S* sum = (S*)out + at;
      const T *m = (const T*)mean + column, *s = (const T*)b.std + column;
      vectors<W>(count, [&](auto N, int64_t i) __attribute__((always_inline)) {
        using M = Memory<N, T>;
        Memory<N, S>::store(sum + i, Memory<N, S>::load(y + i) + M::load(m + i) + M::load(s + i) * widened<N>(eps + i));
      });
    };
    walk(b, true, begin, end, piece);
  }

  static void backward(const NoisyBias& b, const void* grad, void* dmean, void* dlog_std, int64_t begin, int64_t end) {
    T *to_mean = (T*)dmean, *to_std = (T*)dlog_std;
    const auto piece = [&](int64_t at, int64_t column, int64_t count, const float* eps) __attribute__((always_inline)) {
      const S* dy = (const S*)grad + at;
      vectors<W>(count, [&](auto N, int64_t i) __attribute__((always_inline)) {
        const auto d = Memory<N, S>::load(dy + i);
        if (to_mean) add<N>(to_mean + column + i, d);
        if (to_std) add<N>(to_std + column + i, d * widened<N>(eps + i));
      });
    };
    walk(b, to_std, begin, end, piece);
    if (to_std)  // d exp(l) = exp(l) dl
      for (int64_t i = 0; i < b.size; ++i) to_std[i] *= ((const T*)b.std)[i];
  }
};
