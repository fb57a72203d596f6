// The fused chain y = scale * s1 * H(g * H(s2 * x)) and its gradients, one row at a time.
//
// Rows longer than a block of registers are trees (butterfly.h): ascend() transforms the blocks and then merges them,
// the middle pass does the top merge of the first H, the product with g and the top split of the second H in
// registers, and descend() goes back down to the blocks. Rows of order m 2^k with m > 1 are m pieces of 2^k elements, each a
// block or a tree, with the stage of order m in the middle (orders.h). The backward pass recomputes v = H(s2 x) from x.

// Row functions for vectors of W lanes of S's compute type; fewer lanes serve pieces shorter than a vector.
template <class S, int W>
struct Rows {
  using T = Compute<S>;
  using V = Vec<T, W>;
  static constexpr bool kFull = W == kVectorBytes / (int)sizeof(T);
  static constexpr int N = kFull ? kRegisters : kNarrow<S>;
  static constexpr int64_t kBlock = (int64_t)W * N;

  // M vectors that lie `distance` elements apart.
  template <int M, class P>
  WHVI_INLINE void load(V (&r)[M], const P* p, int64_t distance = W) {
#pragma GCC unroll 16
    for (int i = 0; i < M; ++i) r[i] = Memory<W, P>::load(p + i * distance);
  }
  template <int M, class P>
  WHVI_INLINE void store(const V (&r)[M], P* p, int64_t distance = W) {
#pragma GCC unroll 16
    for (int i = 0; i < M; ++i) Memory<W, P>::store(p + i * distance, r[i]);
  }
  template <int M, class P>
  WHVI_INLINE void multiply(V (&r)[M], const P* p, int64_t distance = W) {
#pragma GCC unroll 16
    for (int i = 0; i < M; ++i) r[i] *= Memory<W, P>::load(p + i * distance);
  }
  template <int M>
  WHVI_INLINE void multiply(V (&r)[M], T factor) {
#pragma GCC unroll 16
    for (int i = 0; i < M; ++i) r[i] *= factor;
  }

  struct Sink {  // where a gradient goes: nowhere, over the old value, or on top of it
    T* data;
    bool add;
    template <int M>
    inline __attribute__((always_inline)) void put(V (&r)[M], int64_t at, int64_t distance = W) const {
      if (add) {
#pragma GCC unroll 16
        for (int i = 0; i < M; ++i) r[i] += Memory<W, T>::load(data + at + i * distance);
      }
      store(r, data + at, distance);
    }
  };

  // Blocks first: `leaf(r, at)` gives the elements from `at` on; then all distances below `size`, into a.
  template <class Leaf>
  static void ascend(T* a, int64_t size, int64_t at, const Leaf& leaf) {
    const int radix = top_radix<T>(size, kBlock);
    const int64_t child = size / radix;
    ascend_children(a, child, child, radix, at, leaf);
    with_radix(radix, [&](auto R) { strided_pass<W, R>(a, child); });
  }
  template <class Leaf>
  WHVI_INLINE void ascend_children(T* a, int64_t step, int64_t child, int radix, int64_t at, const Leaf& leaf) {
    for (int i = 0; i < radix; ++i, a += step, at += child) {
      if (child == kBlock) {
        V r[N];
        leaf(r, at);
        hadamard<T, W, N>(r);
        store(r, a);
      } else {
        ascend(a, child, at, leaf);
      }
    }
  }
  // The same downwards: `leaf(r, at)` takes the elements from `at` on.
  template <class Leaf>
  static void descend(T* a, int64_t size, int64_t at, const Leaf& leaf) {
    const int radix = top_radix<T>(size, kBlock);
    const int64_t child = size / radix;
    with_radix(radix, [&](auto R) { strided_pass<W, R>(a, child); });
    descend_children(a, child, child, radix, at, leaf);
  }
  template <class Leaf>
  WHVI_INLINE void descend_children(T* a, int64_t step, int64_t child, int radix, int64_t at, const Leaf& leaf) {
    for (int i = 0; i < radix; ++i, a += step, at += child) {
      if (child == kBlock) {
        V r[N];
        load(r, a);
        hadamard<T, W, N>(r);
        leaf(r, at);
      } else {
        descend(a, child, at, leaf);
      }
    }
  }

  struct Forward {
    const S* x;
    const T *s1, *g, *s2;
    T scale;
    S* y;
  };

  WHVI_INLINE auto reader(const Forward& f) {
    return [&f](auto& r, int64_t at) __attribute__((always_inline)) {
      load(r, f.x + at);
      multiply(r, f.s2 + at);
    };
  }
  WHVI_INLINE auto writer(const Forward& f) {
    return [&f](auto& r, int64_t at) __attribute__((always_inline)) {
      multiply(r, f.s1 + at);
      store(r, f.y + at);
    };
  }

  template <int M>
  WHVI_INLINE void forward_block(const Forward& f) {
    V r[M];
    load(r, f.x);
    multiply(r, f.s2);
    hadamard<T, W, M>(r);
    multiply(r, f.g);
    multiply(r, f.scale);
    hadamard<T, W, M>(r);
    multiply(r, f.s1);
    store(r, f.y);
  }

  template <int R>
  WHVI_INLINE void forward_middle(const Forward& f, T* a, int64_t step, int64_t child) {
    for (int64_t j = 0; j < child; j += W) {
      V r[R];
      load(r, a + j, step);
      register_levels<T, W, R>(r);
      multiply(r, f.g + j, child);
      multiply(r, f.scale);
      register_levels<T, W, R>(r);
      store(r, a + j, step);
    }
  }

  static void forward_tree(const Forward& f, int64_t size, T* a) {
    const int radix = top_radix<T>(size, kBlock);
    const int64_t child = size / radix, step = child + kShift<T>;
    ascend_children(a, step, child, radix, 0, reader(f));
    with_radix(radix, [&](auto R) { forward_middle<R>(f, a, step, child); });
    descend_children(a, step, child, radix, 0, writer(f));
  }

  // Rows of m > 1 pieces: the pieces up, the stage of order m, the product with g, the stage again, and the pieces down.
  static int64_t piece_step(int64_t piece) { return kFull && piece >= kBlock ? piece + kShift<T> : piece; }
  static constexpr int kMost = kFull ? N / 2 : N;  // vectors of a piece that is no block
  template <class Leaf>
  WHVI_INLINE void ascend_pieces(T* a, int64_t piece, int m, const Leaf& leaf) {
    if constexpr (kFull)
      if (piece >= kBlock) return ascend_children(a, piece_step(piece), piece, m, 0, leaf);
    pieces<T, W, kMost>(m * piece, piece, leaf, [&](auto& r, int64_t at) __attribute__((always_inline)) { store(r, a + at); });
  }
  template <class Leaf>
  WHVI_INLINE void descend_pieces(T* a, int64_t piece, int m, const Leaf& leaf) {
    if constexpr (kFull)
      if (piece >= kBlock) return descend_children(a, piece_step(piece), piece, m, 0, leaf);
    pieces<T, W, kMost>(m * piece, piece, [&](auto& r, int64_t at) __attribute__((always_inline)) { load(r, a + at); }, leaf);
  }
  static void forward_pieces(const Forward& f, int64_t piece, int m, T* a) {
    const int64_t step = piece_step(piece);
    const auto first = paley_column_of<W, true, T, T>(m), second = paley_column_of<W, false, T, T>(m);
    ascend_pieces(a, piece, m, reader(f));
    for (int64_t j = 0; j < piece; j += W) {
      first(a + j, step, a + j, step, f.g + j, piece, f.scale);
      second(a + j, step, a + j, step, nullptr, 0, 1);
    }
    descend_pieces(a, piece, m, writer(f));
  }
  static constexpr int64_t scratch(int64_t size) { return size + 36 * kShift<T>; }

  struct Backward {
    const S *dy, *x;
    const T *s1, *g, *s2, *eps;
    T scale;
    Sink dx, ds1, dg, ds2, dstd;
  };

  // The middle: v = H(s2 x) and z = scale * H(s1 dy) meet g, and leave as g v and g z.
  template <int M>
  WHVI_INLINE void meet(const Backward& b, V (&v)[M], V (&z)[M], int64_t at, int64_t distance) {
    multiply(z, b.scale);
    if (b.dg.data || b.dstd.data) {
      V d[M];
#pragma GCC unroll 16
      for (int i = 0; i < M; ++i) d[i] = z[i] * v[i];
      if (b.dstd.data) {
        V e[M];
#pragma GCC unroll 16
        for (int i = 0; i < M; ++i) e[i] = d[i];
        multiply(e, b.eps + at, distance);
        b.dstd.put(e, at, distance);
      }
      if (b.dg.data) b.dg.put(d, at, distance);
    }
    multiply(z, b.g + at, distance);
    multiply(v, b.g + at, distance);
  }
  template <int M>
  WHVI_INLINE void finish_scale(const Backward& b, V (&w)[M], int64_t at) {  // w = H(g v)
    multiply(w, b.dy + at);
    multiply(w, b.scale);
    b.ds1.put(w, at);
  }
  template <int M>
  WHVI_INLINE void finish_input(const Backward& b, V (&da)[M], int64_t at) {  // da = H(g z)
    if (b.ds2.data) {
      V d[M];
#pragma GCC unroll 16
      for (int i = 0; i < M; ++i) d[i] = da[i];
      multiply(d, b.x + at);
      b.ds2.put(d, at);
    }
    if (b.dx.data) {
      multiply(da, b.s2 + at);
      b.dx.put(da, at);
    }
  }

  template <int M>
  WHVI_INLINE void backward_block(const Backward& b) {
    V v[M], z[M];
    load(v, b.x);
    multiply(v, b.s2);
    hadamard<T, W, M>(v);
    load(z, b.dy);
    multiply(z, b.s1);
    hadamard<T, W, M>(z);
    meet(b, v, z, 0, W);
    if (b.ds1.data) {
      hadamard<T, W, M>(v);
      finish_scale(b, v, 0);
    }
    hadamard<T, W, M>(z);
    finish_input(b, z, 0);
  }

  template <int R>
  WHVI_INLINE void backward_middle(const Backward& b, T* v, T* z, int64_t step, int64_t child) {
    for (int64_t j = 0; j < child; j += W) {
      V rv[R], rz[R];
      load(rv, v + j, step);
      register_levels<T, W, R>(rv);
      load(rz, z + j, step);
      register_levels<T, W, R>(rz);
      meet(b, rv, rz, j, child);
      register_levels<T, W, R>(rz);
      store(rz, z + j, step);
      register_levels<T, W, R>(rv);
      store(rv, v + j, step);
    }
  }

  static void backward_tree(const Backward& b, int64_t size, T* v, T* z) {
    const int radix = top_radix<T>(size, kBlock);
    const int64_t child = size / radix, step = child + kShift<T>;
    ascend_children(v, step, child, radix, 0, input_reader(b));
    ascend_children(z, step, child, radix, 0, gradient_reader(b));
    with_radix(radix, [&](auto R) { backward_middle<R>(b, v, z, step, child); });
    if (b.ds1.data) descend_children(v, step, child, radix, 0, scale_writer(b));
    if (b.ds2.data || b.dx.data) descend_children(z, step, child, radix, 0, input_writer(b));
  }
  WHVI_INLINE auto input_reader(const Backward& b) {
    return [&b](auto& r, int64_t at) __attribute__((always_inline)) {
      load(r, b.x + at);
      multiply(r, b.s2 + at);
    };
  }
  WHVI_INLINE auto gradient_reader(const Backward& b) {
    return [&b](auto& r, int64_t at) __attribute__((always_inline)) {
      load(r, b.dy + at);
      multiply(r, b.s1 + at);
    };
  }
  WHVI_INLINE auto scale_writer(const Backward& b) {
    return [&b](auto& r, int64_t at) __attribute__((always_inline)) { finish_scale(b, r, at); };
  }
  WHVI_INLINE auto input_writer(const Backward& b) {
    return [&b](auto& r, int64_t at) __attribute__((always_inline)) { finish_input(b, r, at); };
  }

  static void backward_pieces(const Backward& b, int64_t piece, int m, T* v, T* z) {
    const int64_t step = piece_step(piece);
    const auto column = paley_column_of<W, false, T, T>(m);
    ascend_pieces(v, piece, m, input_reader(b));
    ascend_pieces(z, piece, m, gradient_reader(b));
    for (int64_t j = 0; j < piece; j += W) {
      column(v + j, step, v + j, step, nullptr, 0, 1);
      column(z + j, step, z + j, step, nullptr, 0, 1);
      for (int i = 0; i < m; i += 4) {
        V rv[4], rz[4];
        load(rv, v + i * step + j, step);
        load(rz, z + i * step + j, step);
        meet(b, rv, rz, i * piece + j, piece);
        store(rv, v + i * step + j, step);
        store(rz, z + i * step + j, step);
      }
      if (b.ds1.data) column(v + j, step, v + j, step, nullptr, 0, 1);
      if (b.ds2.data || b.dx.data) column(z + j, step, z + j, step, nullptr, 0, 1);
    }
    if (b.ds1.data) descend_pieces(v, piece, m, scale_writer(b));
    if (b.ds2.data || b.dx.data) descend_pieces(z, piece, m, input_writer(b));
  }

  WHVI_INLINE void forward(const Forward& f, int64_t piece, int m, T* a) {
    if (m == 1) forward<1>(f, piece, a);
    else forward_pieces(f, piece, m, a);
  }
  WHVI_INLINE void backward(const Backward& b, int64_t piece, int m, T* v, T* z) {
    if (m == 1) backward<1>(b, piece, v, z);
    else backward_pieces(b, piece, m, v, z);
  }
  // Rows of size <= kBlock stay in registers; M is the number of vectors of such a row.
  template <int M>
  WHVI_INLINE void forward(const Forward& f, int64_t size, T* a) {
    if constexpr (M <= N) {
      if (size == (int64_t)M * W) forward_block<M>(f);
      else forward<2 * M>(f, size, a);
    } else if constexpr (kFull) {
      forward_tree(f, size, a);
    }
  }
  template <int M>
  WHVI_INLINE void backward(const Backward& b, int64_t size, T* v, T* z) {
    if constexpr (M <= N) {
      if (size == (int64_t)M * W) backward_block<M>(b);
      else backward<2 * M>(b, size, v, z);
    } else if constexpr (kFull) {
      backward_tree(b, size, v, z);
    }
  }
};

// Walks rows and blocks of one group: finds each operand's row, draws the noise, calls the row functions.
template <class S>
struct ChainRunner {
  using T = Compute<S>;

  // The rows of an operand in the order of the walk: `next()` goes to the next row, `(k)` is block k of this one.
  template <class P>
  struct Cursor {
    P* here;
    int64_t by_row, by_block;
    Cursor(const Operand& o, int64_t group, int64_t row)
        : here((P*)o.data + group * o.group + row * o.row), by_row(o.row), by_block(o.block) {}
    inline __attribute__((always_inline)) P* operator()(int64_t block) const { return here + block * by_block; }
    inline __attribute__((always_inline)) void next() { here += by_row; }
  };

  // Scratch of a call: `count` rows, and a row of ones that stands for an absent scale.
  struct Scratch {
    T *row[3], *ones;
    int64_t size;
    Scratch(const Chain& c, int count) : size(c.size) {
      const int64_t length = Rows<S, 1>::scratch(size);
      const bool absent = !c.s1.data || !c.s2.data;
      T* all = (T*)allocate((size_t)(length * (count + absent)) * sizeof(T));
      for (int i = 0; i < count; ++i) row[i] = all + i * length;
      ones = all + count * length;
      if (absent)
        for (int64_t i = 0; i < size; ++i) ones[i] = 1;
    }
    ~Scratch() { release(row[0]); }
    Operand present(const Operand& o) const { return o.data ? o : Operand{ones, 0, 0, 0}; }
  };

  // The vector g of a walk: the operand itself or, with noise, g + std * eps in scratch. Draws are made for a tile of rows
  // at a time, so that short rows do not waste the generator's groups of 64.
  struct Middle {
    Cursor<const T> mean, std;
    const bool noisy;
    const uint64_t seed, offset;
    const int64_t size, end, length, by_block;  // length: numbers per row
    int64_t row, tile = 1, drawn = 0;           // the row at hand, rows per tile, first row without numbers
    T *eps = nullptr, *here = nullptr, *sum = nullptr;
    float* raw = nullptr;
    Middle(const Chain& c, int64_t group, int64_t begin, int64_t end)
        : mean(c.g, group, begin), std(c.std, group, begin), noisy(c.seed), seed(noisy ? (uint64_t)c.seed[group] : 0),
          offset(c.offset), size(c.size), end(end), length(c.noise_blocks * size),
          by_block(c.noise_blocks > 1 ? size : 0), row(begin) {
      if (!noisy || length == 0 || begin == end) return;
      if (length < 1024) tile = 1024 / length;
      eps = (T*)allocate((size_t)(tile * length) * sizeof(T));
      sum = (T*)allocate((size_t)size * sizeof(T));
      raw = std::is_same_v<T, float> ? (float*)eps : (float*)allocate((size_t)(tile * length) * sizeof(float));
      draw();
    }
    ~Middle() {
      if (!std::is_same_v<T, float>) release(raw);
      release(eps);
      release(sum);
    }
    void draw() {
      const int64_t rows = tile < end - row ? tile : end - row, count = rows * length;
      Normals::fill(seed, offset + (uint64_t)(row * length), count, raw);
      if (!std::is_same_v<T, float>)
        for (int64_t i = 0; i < count; ++i) eps[i] = (T)raw[i];
      here = eps;
      drawn = row + rows;
    }
    inline __attribute__((always_inline)) void next() {
      mean.next();
      if (!noisy) return;
      std.next();
      here += length;
      if (++row == drawn && row < end) draw();
    }
    inline __attribute__((always_inline)) const T* noise(int64_t block) const { return here + block * by_block; }
    inline __attribute__((always_inline)) const T* operator()(int64_t block) { return noisy ? sampled(block) : mean(block); }
    const T* sampled(int64_t block) {
      const T *m = mean(block), *s = std(block), *e = noise(block);
      with_lanes<S>(size / factor_of(size), [&](auto W) {
        using M = Memory<W, T>;
        for (int64_t i = 0; i < size; i += W) M::store(sum + i, M::load(m + i) + M::load(s + i) * M::load(e + i));
      });
      return sum;
    }
  };

  static void forward(const Chain& c, void* out, int64_t group, int64_t begin, int64_t end) {
    const Scratch scratch(c, 1);
    const int64_t size = scratch.size, piece = size / factor_of(size);
    const int m = factor_of(size);
    Cursor<const S> x(c.x, group, begin);
    Cursor<const T> s1(scratch.present(c.s1), group, begin), s2(scratch.present(c.s2), group, begin);
    Middle g(c, group, begin, end);
    S* y = (S*)out + (group * c.rows + begin) * c.blocks * size;
    with_lanes<S>(piece, [&](auto W) {
      using R = Rows<S, W>;
      for (int64_t row = begin; row < end; ++row, x.next(), s1.next(), g.next(), s2.next())
        for (int64_t k = 0; k < c.blocks; ++k, y += size)
          R::forward({x(k), s1(k), g(k), s2(k), (T)c.scale, y}, piece, m, scratch.row[0]);
    });
  }

  // Where the gradient of an operand goes in the course of the walk. Rows of its own are written, and a second block of
  // the same row adds to the first; an accumulator is always added to.
  template <class R>
  struct Target {
    Cursor<T> at;
    bool accumulator;
    Target(const Gradient& d, const Operand& o, int64_t group, int64_t begin)
        : at(d.partial ? Operand{d.partial, 0, 0, o.block}
             : d.rows  ? Operand{d.rows, o.group, o.row, o.block}
                       : Operand{},
             group, begin),
          accumulator(d.partial) {}
    inline __attribute__((always_inline)) typename R::Sink operator()(int64_t block) const {
      return {at(block), accumulator || (block > 0 && at.by_block == 0)};
    }
  };

  static void backward(const Chain& c, const void* grad, const ChainGradients& d, int64_t group, int64_t begin, int64_t end) {
    const Scratch scratch(c, 3);
    const int64_t size = scratch.size, piece = size / factor_of(size);
    const int m = factor_of(size);
    Cursor<const S> x(c.x, group, begin);
    Cursor<const T> s1(scratch.present(c.s1), group, begin), s2(scratch.present(c.s2), group, begin);
    Middle g(c, group, begin, end);
    const S* dy = (const S*)grad + (group * c.rows + begin) * c.blocks * size;
    // dx leaves through a row of scratch when it is stored in another type than it is computed in.
    const bool convert = !std::is_same_v<S, T> && d.x.rows;
    Cursor<S> dx_out(convert ? Operand{d.x.rows, c.x.group, c.x.row, c.x.block} : Operand{}, group, begin);
    with_lanes<S>(piece, [&](auto W) {
      using R = Rows<S, W>;
      Target<R> dx(convert ? Gradient{} : d.x, c.x, group, begin), ds1(d.s1, c.s1, group, begin), dg(d.g, c.g, group, begin),
          ds2(d.s2, c.s2, group, begin), dstd(d.std, c.std, group, begin);
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t k = 0; k < c.blocks; ++k, dy += size) {
          const typename R::Sink to_dx = convert ? typename R::Sink{scratch.row[2], k > 0 && c.x.block == 0} : dx(k);
          const typename R::Backward b = {dy,       x(k),  s1(k),  g(k),  s2(k),  g.noise(k), (T)c.scale,
                                          to_dx, ds1(k), dg(k), ds2(k), dstd(k)};
          R::backward(b, piece, m, scratch.row[0], scratch.row[1]);
          if (convert && (c.x.block != 0 || k == c.blocks - 1))
            for (int64_t i = 0; i < size; i += W) Memory<W, S>::store(dx_out(k) + i, Memory<W, T>::load(scratch.row[2] + i));
        }
        x.next(), s1.next(), g.next(), s2.next(), dx_out.next();
        dx.at.next(), ds1.at.next(), dg.at.next(), ds2.at.next(), dstd.at.next();
      }
    });
  }
};
