// The fused chain y = scale * s1 * H(g * H(s2 * x)) and its gradients, one row at a time.
//
// Rows longer than a block of registers are trees (butterfly.h): ascend() transforms the blocks and then merges them,
// the middle pass does the top merge of the first H, the product with g and the top split of the second H in
// registers, and descend() goes back down to the blocks. The backward pass recomputes v = H(s2 x) from x.

// Row functions for vectors of W lanes of S's compute type; W = 1 serves rows shorter than a vector.
template <class S, int W>
struct Rows {
  using T = Compute<S>;
  using V = Vec<T, W>;
  static constexpr int N = kRegisters;
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
    const int radix = middle_radix(size);
    const int64_t child = size / radix, step = child + kShift<T>;
    const auto read = [&](V(&r)[N], int64_t at) __attribute__((always_inline)) {
      load(r, f.x + at);
      multiply(r, f.s2 + at);
    };
    const auto write = [&](V(&r)[N], int64_t at) __attribute__((always_inline)) {
      multiply(r, f.s1 + at);
      store(r, f.y + at);
    };
    ascend_children(a, step, child, radix, 0, read);
    with_radix(radix, [&](auto R) { forward_middle<R>(f, a, step, child); });
    descend_children(a, step, child, radix, 0, write);
  }
  // The middle pass has two transforms to do at once: it does not also take the spills of radix 16.
  WHVI_INLINE int middle_radix(int64_t size) {
    const int radix = top_radix<T>(size, kBlock);
    return radix == 16 ? 8 : radix;
  }
  static constexpr int64_t scratch(int64_t size) { return size + 8 * kShift<T>; }

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
    const int radix = middle_radix(size);
    const int64_t child = size / radix, step = child + kShift<T>;
    const auto read_x = [&](V(&r)[N], int64_t at) __attribute__((always_inline)) {
      load(r, b.x + at);
      multiply(r, b.s2 + at);
    };
    const auto read_dy = [&](V(&r)[N], int64_t at) __attribute__((always_inline)) {
      load(r, b.dy + at);
      multiply(r, b.s1 + at);
    };
    const auto scale_out = [&](V(&r)[N], int64_t at) __attribute__((always_inline)) { finish_scale(b, r, at); };
    const auto input_out = [&](V(&r)[N], int64_t at) __attribute__((always_inline)) { finish_input(b, r, at); };
    ascend_children(v, step, child, radix, 0, read_x);
    ascend_children(z, step, child, radix, 0, read_dy);
    with_radix(radix, [&](auto R) { backward_middle<R>(b, v, z, step, child); });
    if (b.ds1.data) descend_children(v, step, child, radix, 0, scale_out);
    if (b.ds2.data || b.dx.data) descend_children(z, step, child, radix, 0, input_out);
  }

  // Rows of size <= kBlock stay in registers; M is the number of vectors of such a row.
  template <int M>
  WHVI_INLINE void forward(const Forward& f, int64_t size, T* a) {
    if constexpr (M <= N) {
      if (size == (int64_t)M * W) forward_block<M>(f);
      else forward<2 * M>(f, size, a);
    } else {
      forward_tree(f, size, a);
    }
  }
  template <int M>
  WHVI_INLINE void backward(const Backward& b, int64_t size, T* v, T* z) {
    if constexpr (M <= N) {
      if (size == (int64_t)M * W) backward_block<M>(b);
      else backward<2 * M>(b, size, v, z);
    } else {
      backward_tree(b, size, v, z);
    }
  }
};

// Walks rows and blocks of one group: finds each operand's row, draws the noise, calls the row functions.
template <class S>
struct ChainRunner {
  using T = Compute<S>;
  static constexpr int kFullWidth = kVectorBytes / (int)sizeof(T);

  template <class F>  // rows shorter than a vector use the one-lane instance of the same code
  static void with_width(int64_t size, F&& f) {
    if (size >= kFullWidth) f(std::integral_constant<int, kFullWidth>{});
    else f(std::integral_constant<int, 1>{});
  }
  template <class P>
  static const P* at(const Operand& o, int64_t group, int64_t row, int64_t block) {
    return (const P*)o.data + group * o.group + row * o.row + block * o.block;
  }
  // Scratch of a call: `count` rows, and a row of ones that stands for an absent scale.
  struct Scratch {
    T *row[3], *ones;
    int64_t size;
    Scratch(const Chain& c, int count) : size((int64_t)1 << c.log2_size) {
      const int64_t length = Rows<S, kFullWidth>::scratch(size);
      const bool absent = !c.s1.data || !c.s2.data;
      T* all = (T*)allocate((size_t)(length * (count + absent)) * sizeof(T));
      for (int i = 0; i < count; ++i) row[i] = all + i * length;
      ones = all + count * length;
      if (absent)
        for (int64_t i = 0; i < size; ++i) ones[i] = 1;
    }
    ~Scratch() { release(row[0]); }
    const T* scale(const Operand& o, int64_t group, int64_t r, int64_t block) const {
      return o.data ? at<T>(o, group, r, block) : ones;
    }
  };

  // Draws for a tile of rows at a time, so that short rows do not waste the generator's groups of 64.
  struct Noise {
    const Chain& c;
    int64_t size, group, end, tile, first = 0, last = 0;
    T *eps, *g;
    float* raw;
    Noise(const Chain& chain, int64_t group, int64_t end)
        : c(chain), size((int64_t)1 << chain.log2_size), group(group), end(end) {
      if (!c.seed) {
        eps = g = nullptr, raw = nullptr;
        return;
      }
      const int64_t row = c.noise_blocks * size;
      tile = row < 1024 ? 1024 / row : 1;
      eps = (T*)allocate((size_t)(tile * row) * sizeof(T));
      g = (T*)allocate((size_t)size * sizeof(T));
      raw = std::is_same_v<T, float> ? (float*)eps : (float*)allocate((size_t)(tile * row) * sizeof(float));
    }
    ~Noise() {
      if (!std::is_same_v<T, float>) release(raw);
      release(eps);
      release(g);
    }
    const T* draw(int64_t row, int64_t block) {
      const int64_t length = c.noise_blocks * size;
      if (row >= last || row < first) {
        first = row;
        last = row + tile < end ? row + tile : end;
        const int64_t count = (last - first) * length;
        Normals::fill((uint64_t)c.seed[group], c.offset + (uint64_t)(first * length), count, raw);
        if (!std::is_same_v<T, float>)
          for (int64_t i = 0; i < count; ++i) eps[i] = (T)raw[i];
      }
      return eps + (row - first) * length + (c.noise_blocks > 1 ? block * size : 0);
    }
    // g + std * eps, in scratch; without noise g itself.
    const T* sampled(int64_t row, int64_t block, const T** drawn) {
      const T* mean = at<T>(c.g, group, row, block);
      if (!c.seed) return mean;
      const T *e = draw(row, block), *std = at<T>(c.std, group, row, block);
      with_width(size, [&](auto W) {
        for (int64_t i = 0; i < size; i += W) {
          using M = Memory<W, T>;
          M::store(g + i, M::load(mean + i) + M::load(std + i) * M::load(e + i));
        }
      });
      *drawn = e;
      return g;
    }
  };

  static void forward(const Chain& c, void* y, int64_t group, int64_t begin, int64_t end) {
    const Scratch scratch(c, 1);
    const int64_t size = scratch.size;
    Noise noise(c, group, end);
    with_width(size, [&](auto W) {
      using R = Rows<S, W>;
      for (int64_t row = begin; row < end; ++row)
        for (int64_t block = 0; block < c.blocks; ++block) {
          const T* eps;
          const typename R::Forward f = {at<S>(c.x, group, row, block), scratch.scale(c.s1, group, row, block),
                                         noise.sampled(row, block, &eps), scratch.scale(c.s2, group, row, block), (T)c.scale,
                                         (S*)y + ((group * c.rows + row) * c.blocks + block) * size};
          R::template forward<1>(f, size, scratch.row[0]);
        }
    });
  }

  // Rows of an operand that differs from row to row are its own; a second block of a row adds to the first.
  template <class R>
  static typename R::Sink sink(const Gradient& d, const Operand& o, int64_t group, int64_t row, int64_t block) {
    if (d.partial) return {(T*)d.partial + block * o.block, true};
    if (!d.rows) return {nullptr, false};
    return {(T*)d.rows + group * o.group + row * o.row + block * o.block, o.block == 0 && block > 0};
  }

  static void backward(const Chain& c, const void* dy, const ChainGradients& d, int64_t group, int64_t begin, int64_t end) {
    const Scratch scratch(c, 3);
    const int64_t size = scratch.size;
    // dx leaves through a row of scratch when it is stored in another type than it is computed in.
    T* dx_row = !std::is_same_v<S, T> && d.x.rows ? scratch.row[2] : nullptr;
    Noise noise(c, group, end);
    with_width(size, [&](auto W) {
      using R = Rows<S, W>;
      for (int64_t row = begin; row < end; ++row)
        for (int64_t block = 0; block < c.blocks; ++block) {
          const T* eps = nullptr;
          const T* g = noise.sampled(row, block, &eps);
          typename R::Sink dx = dx_row ? typename R::Sink{dx_row, c.x.block == 0 && block > 0}
                                       : sink<R>(d.x, c.x, group, row, block);
          const typename R::Backward b = {
              (const S*)dy + ((group * c.rows + row) * c.blocks + block) * size,
              at<S>(c.x, group, row, block),
              scratch.scale(c.s1, group, row, block),
              g,
              scratch.scale(c.s2, group, row, block),
              eps,
              (T)c.scale,
              dx,
              sink<R>(d.s1, c.s1, group, row, block),
              sink<R>(d.g, c.g, group, row, block),
              sink<R>(d.s2, c.s2, group, row, block),
              sink<R>(d.std, c.std, group, row, block)};
          R::template backward<1>(b, size, scratch.row[0], scratch.row[1]);
          if (dx_row && (c.x.block != 0 || block == c.blocks - 1)) {
            S* out = (S*)d.x.rows + group * c.x.group + row * c.x.row + block * c.x.block;
            for (int64_t i = 0; i < size; i += W) Memory<W, S>::store(out + i, Memory<W, T>::load(dx_row + i));
          }
        }
    });
  }
};
