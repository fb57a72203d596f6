// Random cases for every table of kernels, compared with plain loops in double precision. Built with AddressSanitizer and
// UndefinedBehaviorSanitizer by `make fuzz`; buffers are of the exact size, so that one element too far is a report.
// usage: fuzz CASES [SEED]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels.h"

namespace {

using namespace whvi;
using Doubles = std::vector<double>;

std::mt19937_64 rng;
std::string current;  // what runs, for the report

int64_t below(int64_t n) { return (int64_t)(rng() % (uint64_t)n); }
bool coin() { return below(2) == 1; }

void check(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "FAILED %s: %s\n", what, current.c_str());
  std::exit(1);
}

size_t width(Storage s) { return s == Storage::f64 ? 8 : s == Storage::f32 ? 4 : 2; }
double unit(Storage s) { return s == Storage::f64 ? 1e-15 : s == Storage::f32 ? 6e-8 : s == Storage::f16 ? 5e-4 : 4e-3; }

// A buffer of exactly `count` elements of a storage type, at an offset that breaks alignment to vectors.
struct Buffer {
  Storage storage;
  int64_t count;
  std::vector<char> bytes;
  size_t shift;
  Buffer(Storage s, int64_t n) : storage(s), count(n), shift((size_t)below(8) * width(s)) {
    bytes.resize(shift + (size_t)n * width(s));
  }
  void* data() { return bytes.data() + shift; }
  double get(int64_t i) const {
    const char* p = bytes.data() + shift + (size_t)i * width(storage);
    if (storage == Storage::f64) {
      double v;
      std::memcpy(&v, p, 8);
      return v;
    }
    float v;
    if (storage == Storage::f32) {
      std::memcpy(&v, p, 4);
      return v;
    }
    uint16_t h;
    std::memcpy(&h, p, 2);
    if (storage == Storage::bf16) {
      const uint32_t bits = (uint32_t)h << 16;
      std::memcpy(&v, &bits, 4);
      return v;
    }
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    const double m = exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
    return h & 0x8000 ? -m : m;
  }
  void fill() {  // small multiples of 1/8: exact in every type
    for (int64_t i = 0; i < count; ++i) {
      const double value = (double)(below(33) - 16) / 8;
      char* p = bytes.data() + shift + (size_t)i * width(storage);
      const float f = (float)value;
      uint32_t bits;
      std::memcpy(&bits, &f, 4);
      uint16_t h = (uint16_t)(bits >> 16);
      if (storage == Storage::f64) std::memcpy(p, &value, 8);
      else if (storage == Storage::f32) std::memcpy(p, &f, 4);
      else {
        if (storage == Storage::f16)
          h = value == 0 ? 0 : (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 13 & 0x3ffff) - (112u << 10)));
        std::memcpy(p, &h, 2);
      }
    }
  }
};

// H_m as it is defined (whvi/ops/orders.py), not as the kernels add it up: 1 or -1.
int paley(int m, int64_t row, int64_t column) {
  const int q = m / 2 - 1, p = q == 9 ? 3 : q, n = q / p;
  const int64_t a = row / 2 - 1, b = column / 2 - 1, odd = row % 2 + column % 2;
  if (a == b) return odd == 0 ? 1 : -1;
  bool square = a < 0 || b < 0;
  for (int64_t c = 1; c < q; ++c) {  // elements of GF(9) are x + y i, numbered 3 x + y
    const int64_t x = c / n, y = c % n;
    square = square || (((x * x - y * y - a / n + b / n) % p == 0) && ((2 * x * y - a % n + b % n) % p == 0));
  }
  return (square ? 1 : -1) * (odd == 2 ? -1 : 1);
}

// An order below 2^log2.
int64_t random_order(int log2) {
  const int64_t power = (int64_t)1 << below(log2), m = coin() ? 1 : 4 * (3 + 2 * below(4));
  return power * m < (int64_t)1 << log2 ? power * m : power;
}

// H x, the butterflies in the order of the kernels.
template <class T>
void hadamard(T* x, int64_t size) {
  const int m = factor_of(size);
  const int64_t piece = size / m;
  if (m > 1) {
    const std::vector<T> from(x, x + size);
    std::fill(x, x + size, T(0));
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < m; ++j) {
        const int sign = paley(m, i, j);
        for (int64_t k = 0; k < piece; ++k) x[i * piece + k] += sign * from[(size_t)(j * piece + k)];
      }
  }
  for (int64_t distance = piece / 2; distance >= 1; distance /= 2)
    for (int64_t i = 0; i < size; ++i)
      if ((i & distance) == 0) {
        const T a = x[i], b = x[i + distance];
        x[i] = a + b;
        x[i + distance] = a - b;
      }
}

void fuzz_transform(const Kernels& k) {
  const Storage s = (Storage)below(4);
  const int64_t size = random_order(coin() ? 14 : 8), rows = below(size > 512 ? 4 : 40);
  const double scale = coin() ? 1.0 : 0.5;
  const bool in_place = coin();
  current = std::string("fwht ") + k.name + " storage " + std::to_string((int)s) + " rows " + std::to_string(rows) + " size " +
            std::to_string(size);
  Buffer x(s, rows * size), y(s, rows * size);
  x.fill();
  Buffer before = x;
  k.fwht(s, x.data(), in_place ? x.data() : y.data(), rows, size, scale);
  const Buffer& result = in_place ? x : y;
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<float> f((size_t)size);
    Doubles d((size_t)size);
    for (int64_t i = 0; i < size; ++i) f[(size_t)i] = (float)(d[(size_t)i] = before.get(r * size + i));
    hadamard(f.data(), size);
    hadamard(d.data(), size);
    for (int64_t i = 0; i < size; ++i) {
      const double got = result.get(r * size + i), want = s == Storage::f32 ? f[(size_t)i] * (float)scale : d[(size_t)i] * scale;
      if (width(s) > 2) check(got == want, "bits of the transform");
      else if (std::fabs(want) < 6e4) check(std::fabs(got - want) <= unit(s) * (1 + std::fabs(want)), "value of the transform");
    }
  }
}

struct Place {
  int64_t row, term, column, block;
};
int64_t place(const Operand& o, const Place& p) { return p.row * o.row + p.term * o.term + p.column * o.column + p.block * o.block; }

// Strides of an operand that varies along some axes.
Operand random_operand(const Chain& c, bool by_row) {
  int64_t step = c.size;
  const auto axis = [&](int64_t count, bool varies) {
    const int64_t own = varies ? count : 1, stride = own == 1 ? 0 : step;
    step *= own;
    return stride;
  };
  Operand o;
  o.block = axis(c.blocks, coin()), o.column = axis(c.columns, coin()), o.term = axis(c.terms, coin());
  o.row = axis(c.rows, by_row), o.group = step;
  return o;
}

// An operand of the chain with its strides, its values and the sum of its gradients.
struct Factor {
  Buffer values;
  Operand operand;
  Doubles gradient;
  Factor(Storage s, const Chain& c) : values(s, 0), operand(random_operand(c, coin())) {
    values = Buffer(s, c.groups * operand.group);
    values.fill();
    operand.data = values.data();
    gradient.assign((size_t)values.count, 0.0);
  }
  int64_t at(int64_t g, const Place& p) const { return g * operand.group + place(operand, p); }
};

void fuzz_chain(const Kernels& k) {
  Chain c{};
  c.storage = (Storage)below(4);
  const Storage compute = c.storage == Storage::f64 ? Storage::f64 : Storage::f32;
  const int64_t size = c.size = random_order(coin() ? 12 : 7);
  c.groups = 1 + below(2), c.rows = 1 + below(size > 256 ? 2 : 5), c.blocks = 1 + below(3);
  c.terms = coin() ? 1 : 1 + below(3), c.columns = coin() ? 1 : 1 + below(3);
  c.scale = 1.0 / (double)size;
  c.offset = (uint64_t)below(200);
  c.noise = random_operand(c, true);
  if (c.noise.row == 0) c.noise.row = c.noise.group;
  const bool noisy = coin(), has_s1 = coin(), has_s2 = coin();
  current = std::string("chain ") + k.name + " storage " + std::to_string((int)c.storage) + " groups " + std::to_string(c.groups) +
            " rows " + std::to_string(c.rows) + " terms " + std::to_string(c.terms) + " columns " + std::to_string(c.columns) +
            " blocks " + std::to_string(c.blocks) + " size " + std::to_string(size) + (noisy ? " noisy" : "") + (has_s1 ? " s1" : "") + (has_s2 ? " s2" : "");
  Factor x(c.storage, c), s1(compute, c), g(compute, c), s2(compute, c), std(compute, c);
  const std::vector<int64_t> seeds = {(int64_t)rng(), (int64_t)rng()};
  c.x = x.operand, c.g = g.operand;
  if (has_s1) c.s1 = s1.operand;
  if (has_s2) c.s2 = s2.operand;
  if (noisy) c.std = std.operand, c.seed = seeds.data();
  const int64_t per_group = c.rows * c.blocks * size;
  Buffer y(c.storage, c.groups * per_group), dy(c.storage, c.groups * per_group);
  dy.fill();

  Factor* factors[] = {&x, &s1, &g, &s2, &std};
  const bool present[] = {true, has_s1, true, has_s2, noisy};
  bool needed[5];
  for (int i = 0; i < 5; ++i) needed[i] = present[i] && below(4) != 0;
  std::vector<Buffer> rows, partials;  // where the kernel puts gradients
  for (Factor* f : factors) {
    rows.emplace_back(f->values.storage, f->values.count);
    partials.emplace_back(compute, f->values.count / c.groups);
  }
  for (int64_t group = 0; group < c.groups; ++group) {
    const int64_t cut = below(c.rows + 1);  // two calls, as two chunks of one batch
    k.chain(c, y.data(), group, 0, cut);
    k.chain(c, y.data(), group, cut, c.rows);
    ChainGradients d{};
    Gradient* slots[] = {&d.x, &d.s1, &d.g, &d.s2, &d.std};
    for (int i = 0; i < 5; ++i) {
      if (!needed[i]) continue;
      if (factors[i]->operand.row != 0 || c.rows == 1) slots[i]->rows = rows[(size_t)i].data();
      else {
        std::memset(partials[(size_t)i].data(), 0, (size_t)partials[(size_t)i].count * width(compute));
        slots[i]->partial = partials[(size_t)i].data();
      }
    }
    k.chain_backward(c, dy.data(), d, group, 0, cut);
    k.chain_backward(c, dy.data(), d, group, cut, c.rows);
    for (int i = 0; i < 5; ++i)
      if (slots[i]->partial)
        k.store(rows[(size_t)i].storage, (char*)rows[(size_t)i].data() + (size_t)(group * factors[i]->operand.group) * width(rows[(size_t)i].storage),
                slots[i]->partial, partials[(size_t)i].count);
  }

  const size_t n = (size_t)size;
  const double summands = (double)(c.terms * c.columns);
  std::vector<float> noise((size_t)(c.rows * c.noise.row));
  for (int64_t group = 0; group < c.groups; ++group) {
    if (noisy) k.normal((uint64_t)seeds[(size_t)group], c.offset, (int64_t)noise.size(), noise.data());
    for (int64_t r = 0; r < c.rows; ++r)
      for (int64_t b = 0; b < c.blocks; ++b) {
        const int64_t out = ((group * c.rows + r) * c.blocks + b) * size;
        Doubles sum(n);
        for (int64_t summand = 0; summand < c.terms * c.columns; ++summand) {
          const Place p = {r, summand / c.columns, summand % c.columns, b};
          const auto value = [&](const Factor& f, size_t i) { return f.values.get(f.at(group, p) + (int64_t)i); };
          const float* eps = noise.data() + place(c.noise, p);
          Doubles v(n), w(n), gg(n), dz(n), da(n);
          for (size_t i = 0; i < n; ++i) {
            v[i] = value(x, i) * (has_s2 ? value(s2, i) : 1);
            gg[i] = value(g, i) + (noisy ? value(std, i) * eps[i] : 0);
            dz[i] = dy.get(out + (int64_t)i) * (has_s1 ? value(s1, i) : 1) * c.scale;
          }
          hadamard(v.data(), size);
          hadamard(dz.data(), size);
          for (size_t i = 0; i < n; ++i) w[i] = gg[i] * v[i], da[i] = gg[i] * dz[i];
          hadamard(w.data(), size);
          hadamard(da.data(), size);
          for (size_t i = 0; i < n; ++i) {
            sum[i] += c.scale * w[i] * (has_s1 ? value(s1, i) : 1);
            x.gradient[(size_t)x.at(group, p) + i] += da[i] * (has_s2 ? value(s2, i) : 1);
            s1.gradient[(size_t)s1.at(group, p) + i] += c.scale * w[i] * dy.get(out + (int64_t)i);
            g.gradient[(size_t)g.at(group, p) + i] += dz[i] * v[i];
            s2.gradient[(size_t)s2.at(group, p) + i] += da[i] * value(x, i);
            if (noisy) std.gradient[(size_t)std.at(group, p) + i] += dz[i] * v[i] * eps[i];
          }
        }
        for (size_t i = 0; i < n; ++i) {
          const double want = sum[i], got = y.get(out + (int64_t)i);
          check(std::fabs(got - want) <= (unit(c.storage) + 64 * unit(compute)) * (10 * summands + std::fabs(want)), "value of the chain");
        }
      }
  }
  for (int i = 0; i < 5; ++i)
    if (needed[i])
      for (int64_t j = 0; j < factors[i]->values.count; ++j) {
        const double want = factors[i]->gradient[(size_t)j], got = rows[(size_t)i].get(j);
        check(std::fabs(got - want) <= (unit(rows[(size_t)i].storage) + 256 * unit(compute)) * (20 * summands + std::fabs(want)), "gradient of the chain");
      }
}

void fuzz_bias(const Kernels& k) {
  const Storage s = (Storage)below(4), compute = s == Storage::f64 ? Storage::f64 : Storage::f32;
  const int64_t size = 1 + below(coin() ? 3000 : 70), rows = below(size > 200 ? 4 : 60), count = rows * size;
  const int64_t cut = below(count + 1), needs = 1 + below(3);
  Buffer y(s, count), out(s, count), mean(compute, size), std(compute, size), sums[] = {{compute, size}, {compute, size}};
  y.fill(), mean.fill(), std.fill();
  const NoisyBias b = {s, size, std.data(), rng(), (uint64_t)below(200)};
  current = std::string("noisy_bias ") + k.name + " storage " + std::to_string((int)s) + " rows " + std::to_string(rows) +
            " size " + std::to_string(size) + " offset " + std::to_string(b.offset) + " cut " + std::to_string(cut);
  k.noisy_bias(b, y.data(), mean.data(), out.data(), 0, cut);
  k.noisy_bias(b, y.data(), mean.data(), out.data(), cut, count);
  for (Buffer& sum : sums) std::memset(sum.data(), 0, (size_t)size * width(compute));
  const int64_t first = rows ? below(rows) * size : 0;  // y stands for dy; gradients of its later rows
  k.noisy_bias_backward(b, y.data(), needs & 1 ? sums[0].data() : nullptr, needs & 2 ? sums[1].data() : nullptr, first, count);
  std::vector<float> eps((size_t)count);
  k.normal(b.seed, b.offset, count, eps.data());
  Doubles want[] = {Doubles((size_t)size), Doubles((size_t)size)};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t j = i % size;
    const double noise = std.get(j) * eps[(size_t)i], value = y.get(i) + mean.get(j) + noise;
    check(std::fabs(out.get(i) - value) <= (unit(s) + 4 * unit(compute)) * (10 + std::fabs(value)), "value of the bias");
    if (i >= first) want[0][(size_t)j] += y.get(i), want[1][(size_t)j] += y.get(i) * noise;
  }
  for (int g = 0; g < 2; ++g)
    for (int64_t j = 0; j < size && needs >> g & 1; ++j)
      check(std::fabs(sums[g].get(j) - want[g][(size_t)j]) <= 64 * unit(compute) * (20 + std::fabs(want[g][(size_t)j])), "gradient of the bias");
}

void fuzz_normal(const Kernels& k) {
  const uint64_t seed = rng(), start = coin() ? rng() >> 1 : (uint64_t)below(1000);
  const int64_t count = below(400), cut = count ? below(count) : 0;
  current = std::string("normal ") + k.name + " start " + std::to_string(start) + " count " + std::to_string(count);
  Buffer whole(Storage::f32, count), first(Storage::f32, cut), second(Storage::f32, count - cut);
  k.normal(seed, start, count, (float*)whole.data());
  int tables;
  const Candidate* all = candidates(&tables);  // another instruction set, in two pieces: the same bits
  const Kernels& other = *all[tables - 1].kernels;
  other.normal(seed, start, cut, (float*)first.data());
  other.normal(seed, start + (uint64_t)cut, count - cut, (float*)second.data());
  for (int64_t i = 0; i < count; ++i) {
    const double value = whole.get(i);
    check(value == (i < cut ? first.get(i) : second.get(i - cut)), "bits of the normals");
    check(std::fabs(value) < 6.7, "range of the normals");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const long cases = argc > 1 ? std::atol(argv[1]) : 1000;
  rng.seed(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 20201206);
  int tables;
  const Candidate* all = candidates(&tables);
  std::vector<long> ran((size_t)tables, 0);
  void (*const kinds[])(const Kernels&) = {fuzz_transform, fuzz_chain, fuzz_normal, fuzz_bias};
  for (long i = 0; i < cases; ++i) {
    const int which = (int)below(tables);
    if (!all[which].supported) continue;
    ++ran[(size_t)which];
    kinds[below(sizeof kinds / sizeof *kinds)](*all[which].kernels);
  }
  for (int i = 0; i < tables; ++i) std::printf("%s: %ld cases%s\n", all[i].kernels->name, ran[(size_t)i], all[i].supported ? "" : " (not on this processor)");
  return 0;
}
