// The fused chain y = scale * s1 * H(g * H(s2 * x)), a sum of such, and its gradients, one row at a time.
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
    S* y;      // where the row goes,
    Sink sum;  // unless it is one of a sum
  };

  WHVI_INLINE auto reader(const Forward& f) {
    return [&f](auto& r, int64_t at) __attribute__((always_inline)) {
      load(r, f.x + at);
      multiply(r, f.s2 + at);
    };
  }
  WHVI_INLINE auto writer(const Forward& f) {
    return [&f](auto& r, int64_t at) __attribute__((always_inline)) { leave(f, r, at); };
  }
  template <int M>
  WHVI_INLINE void leave(const Forward& f, V (&r)[M], int64_t at) {
    multiply(r, f.s1 + at);
    if (f.sum.data) f.sum.put(r, at);
    else store(r, f.y + at);
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
    leave(f, r, 0);
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
