// Walks the rows of one group of a chain, their terms, columns and blocks: finds each operand's elements, draws the noise,
// calls the row functions of chain.h. Terms and columns are summed up where a row's result or gradient lies, in the
// type they are computed in, so that no term is ever stored.
template <class S>
struct ChainRunner {
  using T = Compute<S>;
  static constexpr bool kNarrowStorage = !std::is_same_v<S, T>;

  // The elements of an operand in the order of the walk: `next()` goes to the next row, `to(t, c)` to a term and a column of
  // it, and `(k)` is block k there.
  template <class P>
  struct Cursor {
    P *row, *here;
    int64_t by_row, by_term, by_column, by_block;
    Cursor(const Operand& o, int64_t group, int64_t first)
        : row((P*)o.data + group * o.group + first * o.row), here(row), by_row(o.row), by_term(o.term), by_column(o.column),
          by_block(o.block) {}
    inline __attribute__((always_inline)) P* operator()(int64_t block) const { return here + block * by_block; }
    inline __attribute__((always_inline)) void to(int64_t t, int64_t c) { here = row + t * by_term + c * by_column; }
    inline __attribute__((always_inline)) void next() { row += by_row; }
  };

  // Scratch of a call: `count` rows, a row of ones that stands for an absent scale, and `totals` further elements.
  struct Scratch {
    T *row[2], *ones, *totals;
    int64_t size;
    Scratch(const Chain& c, int count, int64_t totals_size) : size(c.size) {
      const int64_t length = Rows<S, 1>::scratch(size);
      const bool absent = !c.s1.data || !c.s2.data;
      T* all = (T*)allocate((size_t)(length * (count + absent) + totals_size) * sizeof(T));
      for (int i = 0; i < count; ++i) row[i] = all + i * length;
      ones = all + count * length;
      totals = ones + absent * length;
      if (absent)
        for (int64_t i = 0; i < size; ++i) ones[i] = 1;
    }
    ~Scratch() { release(row[0]); }
    Operand present(const Operand& o) const {
      if (o.data) return o;
      Operand all_ones;
      all_ones.data = ones;
      return all_ones;
    }
  };

  // The vector g of a walk: the operand itself or, with noise, g + std * eps in scratch. The numbers come in pieces: those of
  // a row or, where terms have their own, of a term. Several short pieces are drawn at a time, so that they do not waste the
  // generator's groups of 64.
  struct Middle {
    Cursor<const T> mean, std;
    const bool noisy, by_term;
    const uint64_t seed, offset;
    const int64_t size, length, by_column, by_block;  // length: numbers per piece
    int64_t piece, end, tile = 1, drawn = 0;          // the piece at hand, the last one's end, first piece without numbers
    T *eps = nullptr, *here = nullptr, *column = nullptr, *sum = nullptr;
    float* raw = nullptr;
    Middle(const Chain& c, int64_t group, int64_t begin, int64_t end)
        : mean(c.g, group, begin), std(c.std, group, begin), noisy(c.seed), by_term(c.noise.term),
          seed(noisy ? (uint64_t)c.seed[group] : 0), offset(c.offset), size(c.size),
          length(by_term ? c.noise.term : c.noise.row), by_column(c.noise.column), by_block(c.noise.block),
          piece(begin * (by_term ? c.terms : 1)), end(end * (by_term ? c.terms : 1)) {
      if (!noisy || length == 0 || begin == end) return;
      if (length < 1024) tile = 1024 / length;
      eps = (T*)allocate((size_t)(tile * length) * sizeof(T));
      sum = (T*)allocate((size_t)size * sizeof(T));
      raw = kRaw ? (float*)eps : (float*)allocate((size_t)(tile * length) * sizeof(float));
      draw();
    }
    ~Middle() {
      if (!kRaw) release(raw);
      release(eps);
      release(sum);
    }
    static constexpr bool kRaw = std::is_same_v<T, float>;
    void draw() {
      const int64_t pieces = tile < end - piece ? tile : end - piece, count = pieces * length;
      Normals::fill(seed, offset + (uint64_t)(piece * length), count, raw);
      if (!kRaw)
        for (int64_t i = 0; i < count; ++i) eps[i] = (T)raw[i];
      here = eps;
      drawn = piece + pieces;
    }
    inline __attribute__((always_inline)) void advance() {
      here += length;
      if (++piece == drawn && piece < end) draw();
    }
    inline __attribute__((always_inline)) void to(int64_t t, int64_t c) {
      mean.to(t, c);
      if (!noisy) return;
      std.to(t, c);
      if (by_term && t > 0 && c == 0) advance();
      column = here + c * by_column;
    }
    inline __attribute__((always_inline)) void next() {
      mean.next();
      if (!noisy) return;
      std.next();
      advance();
    }
    inline __attribute__((always_inline)) const T* noise(int64_t block) const { return column + block * by_block; }
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

  template <int W>
  static void convert(const T* from, S* to, int64_t count) {
    for (int64_t i = 0; i < count; i += W) Memory<W, S>::store(to + i, Memory<W, T>::load(from + i));
  }

  static void forward(const Chain& c, void* out, int64_t group, int64_t begin, int64_t end) {
    const bool several = c.terms * c.columns > 1;
    const int64_t size = c.size, piece = size / factor_of(size), per_row = c.blocks * size;
    const Scratch scratch(c, 1, several && kNarrowStorage ? per_row : 0);
    const int m = factor_of(size);
    Cursor<const S> x(c.x, group, begin);
    Cursor<const T> s1(scratch.present(c.s1), group, begin), s2(scratch.present(c.s2), group, begin);
    Middle g(c, group, begin, end);
    S* y = (S*)out + (group * c.rows + begin) * per_row;
    with_lanes<S>(piece, [&](auto W) {
      using R = Rows<S, W>;
      for (int64_t row = begin; row < end; ++row, y += per_row, x.next(), s1.next(), g.next(), s2.next()) {
        T* const total = !several ? nullptr : kNarrowStorage ? scratch.totals : (T*)y;
        for (int64_t t = 0; t < c.terms; ++t)
          for (int64_t column = 0; column < c.columns; ++column) {
            x.to(t, column), s1.to(t, column), g.to(t, column), s2.to(t, column);
            for (int64_t k = 0, at = 0; k < c.blocks; ++k, at += size)
              R::forward({x(k), s1(k), g(k), s2(k), (T)c.scale, y + at, {several ? total + at : nullptr, t + column > 0}},
                         piece, m, scratch.row[0]);
          }
        if (several && kNarrowStorage) convert<W>(total, y, per_row);
      }
    });
  }

  // Where the gradient of an operand goes in the course of the walk. Elements that vary along an axis are written, and what
  // comes later along the others adds to the first; an accumulator is always added to.
  template <class R>
  struct Target {
    Cursor<T> at;
    bool accumulator, later = false;
    Target(const Gradient& d, const Operand& o, int64_t group, int64_t begin)
        : at(d.partial ? Operand{d.partial, 0, 0, o.term, o.column, o.block}
             : d.rows  ? Operand{d.rows, o.group, o.row, o.term, o.column, o.block}
                       : Operand{},
             group, begin),
          accumulator(d.partial) {}
    inline __attribute__((always_inline)) void to(int64_t t, int64_t c) {
      at.to(t, c);
      later = accumulator || (t > 0 && at.by_term == 0) || (c > 0 && at.by_column == 0);
    }
    inline __attribute__((always_inline)) typename R::Sink operator()(int64_t block) const {
      return {at(block), later || (block > 0 && at.by_block == 0)};
    }
  };

  static void backward(const Chain& c, const void* grad, const ChainGradients& d, int64_t group, int64_t begin, int64_t end) {
    // dx leaves through scratch when it is stored in another type than it is computed in.
    const bool narrow = kNarrowStorage && d.x.rows;
    const int64_t size = c.size, piece = size / factor_of(size), per_row = c.blocks * size;
    const int64_t dx_per_row = (c.x.term ? c.terms : 1) * (c.x.column ? c.columns : 1) * (c.x.block ? c.blocks : 1) * size;
    const Scratch scratch(c, 2, narrow ? dx_per_row : 0);
    const int m = factor_of(size);
    Cursor<const S> x(c.x, group, begin);
    Cursor<const T> s1(scratch.present(c.s1), group, begin), s2(scratch.present(c.s2), group, begin);
    Middle g(c, group, begin, end);
    const S* dy = (const S*)grad + (group * c.rows + begin) * per_row;
    S* dx_out = narrow ? (S*)d.x.rows + group * c.x.group + begin * c.x.row : nullptr;
    with_lanes<S>(piece, [&](auto W) {
      using R = Rows<S, W>;
      const Operand x_scratch = {nullptr, 0, 0, c.x.term, c.x.column, c.x.block};
      Target<R> dx(narrow ? Gradient{scratch.totals} : d.x, narrow ? x_scratch : c.x, group, begin),
          ds1(d.s1, c.s1, group, begin), dg(d.g, c.g, group, begin), ds2(d.s2, c.s2, group, begin),
          dstd(d.std, c.std, group, begin);
      for (int64_t row = begin; row < end; ++row, dy += per_row) {
        for (int64_t t = 0; t < c.terms; ++t)
          for (int64_t column = 0; column < c.columns; ++column) {
            x.to(t, column), s1.to(t, column), g.to(t, column), s2.to(t, column);
            dx.to(t, column), ds1.to(t, column), dg.to(t, column), ds2.to(t, column), dstd.to(t, column);
            for (int64_t k = 0; k < c.blocks; ++k) {
              const typename R::Backward b = {dy + k * size, x(k),   s1(k), g(k),  s2(k),  g.noise(k), (T)c.scale,
                                              dx(k),         ds1(k), dg(k), ds2(k), dstd(k)};
              R::backward(b, piece, m, scratch.row[0], scratch.row[1]);
            }
          }
        if (narrow) convert<W>(scratch.totals, dx_out, dx_per_row), dx_out += c.x.row;
        x.next(), s1.next(), g.next(), s2.next();
        dx.at.next(), ds1.at.next(), dg.at.next(), ds2.at.next(), dstd.at.next();
      }
    });
  }
};
