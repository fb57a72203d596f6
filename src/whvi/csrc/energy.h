// The sum of square * m^2 + exponential * exp(2 l) + linear * l + constant in one pass over two vectors, and its gradients.

// What exp asks of a type: exp(x) = 2^k exp(r) with |r| <= ln(2) / 2, ln 2 in two parts (the first times k is exact), and
// as many terms of the series of exp(r) as the mantissa can tell apart. Beyond the bounds, exp is 0 and infinity.
template <class T>
struct Exp;
template <>
struct Exp<float> {
  using Bits = uint32_t;
  static constexpr int kMantissa = 23, kBias = 127, kTerms = 7;
  static constexpr float kRound = 0x1.8p23f, kHigh = 0.693359375f, kLow = -2.12194440e-4f, kLeast = -104, kMost = 89;
};
template <>
struct Exp<double> {
  using Bits = uint64_t;
  static constexpr int kMantissa = 52, kBias = 1023, kTerms = 13;
  static constexpr double kRound = 0x1.8p52, kHigh = 0x1.62e42feep-1, kLow = 0x1.a39ef35793c76p-33, kLeast = -746, kMost = 710;
};
constexpr double kSeries[] = {
    1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
    1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};

// exp in every lane, to less than 2 units in the last place, subnormal results included; a NaN stays a NaN.
template <class T, int N>
WHVI_INLINE Vec<T, N> exponential(Vec<T, N> x) {
  using E = Exp<T>;
  using V = Vec<T, N>;
  using U = Vec<typename E::Bits, N>;
  const V least = V{} + E::kLeast, most = V{} + E::kMost;
  x = x < least ? least : x;
  x = x > most ? most : x;
  const V shifted = x * (T)1.4426950408889634 + E::kRound, k = shifted - E::kRound;  // k is a whole number
  const V r = (x - k * E::kHigh) - k * E::kLow;
  V q = V{} + (T)kSeries[E::kTerms];
#pragma GCC unroll 16
  for (int n = E::kTerms - 1; n >= 2; --n) q = q * r + (T)kSeries[n];
  // 2^k as a product of two powers: k alone may be too large or too small for the exponent of a number.
  const U exponent = (U)shifted - (U)(V{} + E::kRound) + (typename E::Bits)(2 * E::kBias), half = exponent >> 1;
  return ((q * r * r + r) + (T)1) * (V)(half << E::kMantissa) * (V)((exponent - half) << E::kMantissa);
}

// A sum in double precision of vectors of W lanes and of single elements; its order depends on nothing but their number.
template <class T>
struct Sum {
  static constexpr int W = kVectorBytes / (int)sizeof(T), D = kVectorBytes / 8, kParts = W / D;
  Vec<double, D> lanes[kParts] = {};
  double rest = 0;

  inline __attribute__((always_inline)) void add(Vec<T, 1> v) { rest += (double)v[0]; }
  inline __attribute__((always_inline)) void add(Vec<T, W> v) {
    Vec<T, D> parts[kParts];
    __builtin_memcpy(parts, &v, sizeof v);
#pragma GCC unroll 2
    for (int i = 0; i < kParts; ++i) lanes[i] += __builtin_convertvector(parts[i], Vec<double, D>);
  }
  double total() const {
    double sum = rest;
    for (const auto& part : lanes)
      for (int i = 0; i < D; ++i) sum += part[i];
    return sum;
  }
};

template <class T>
struct EnergyRunner {
  static constexpr int W = kVectorBytes / (int)sizeof(T);

  static double forward(const Energy& e, const void* mean, const void* log_std, int64_t count) {
    Sum<T> squares, exponentials, plain;
    vectors<W>(count, [&](auto N, int64_t i) __attribute__((always_inline)) {
      const auto m = Memory<N, T>::load((const T*)mean + i), l = Memory<N, T>::load((const T*)log_std + i);
      squares.add(m * m);
      exponentials.add(exponential<T, N>(l + l));
      plain.add(l);
    });
    return e.square * squares.total() + e.exponential * exponentials.total() + e.linear * plain.total() +
           e.constant * (double)count;
  }

  static void backward(const Energy& e, double grad, const void* mean, const void* log_std, void* dmean, void* dlog_std,
                       int64_t count) {
    const T square = (T)(2 * grad * e.square), exponent = (T)(2 * grad * e.exponential), linear = (T)(grad * e.linear);
    vectors<W>(count, [&](auto N, int64_t i) __attribute__((always_inline)) {
      const auto m = Memory<N, T>::load((const T*)mean + i), l = Memory<N, T>::load((const T*)log_std + i);
      Memory<N, T>::store((T*)dmean + i, m * square);
      Memory<N, T>::store((T*)dlog_std + i, exponential<T, N>(l + l) * exponent + linear);
    });
  }
};
