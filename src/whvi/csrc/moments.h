// The sum of square * m^2 + variance * exp(2 l) + log_std * l over pairs of short vectors, plus a constant, and its gradients.
#pragma once
#include "operands.h"

namespace {

using Tensors = std::vector<Tensor>;

struct Moments {
  double square, variance, log_std;

  // f(x) for all x, added up in double precision, in an order that depends on nothing but their number.
  template <class T, class F>
  static double sum(const T* x, int64_t count, const F& f) {
    double a = 0, b = 0, c = 0, d = 0;  // four sums, since each addition waits for the one before
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) a += f(x[i]), b += f(x[i + 1]), c += f(x[i + 2]), d += f(x[i + 3]);
    for (; i < count; ++i) a += f(x[i]);
    return (a + b) + (c + d);
  }
  template <class T>
  double value(const T* m, const T* l, const T* std, int64_t count) const {
    const auto squared = [](double x) { return x * x; };
    return square * sum(m, count, squared) + variance * sum(std, count, squared) +
           log_std * sum(l, count, [](double x) { return x; });
  }
  template <class T>
  void gradients(double grad, const T* m, const T* std, T* dm, T* dl, int64_t count) const {
    const T by_square = (T)(2 * grad * square), by_variance = (T)(2 * grad * variance), by_log_std = (T)(grad * log_std);
    for (int64_t i = 0; i < count; ++i) dm[i] = by_square * m[i];
    for (int64_t i = 0; i < count; ++i) dl[i] = by_variance * std[i] * std[i] + by_log_std;
  }
};

// Vectors of one dtype, contiguous.
struct Pairs {
  Tensors means, log_stds;

  Pairs(const Tensors& m, const Tensors& l) {
    STD_TORCH_CHECK(!m.empty() && m.size() == l.size(), "whvi: moments need pairs, at least one");
    const ScalarType dtype = m[0].scalar_type();
    STD_TORCH_CHECK(dtype == ScalarType::Float || dtype == ScalarType::Double, "whvi: means must be float32 or float64");
    for (size_t i = 0; i < m.size(); ++i) {
      STD_TORCH_CHECK(m[i].scalar_type() == dtype && l[i].scalar_type() == dtype, "whvi: all pairs must have one dtype");
      STD_TORCH_CHECK(m[i].numel() == l[i].numel(), "whvi: the tensors of a pair must have one shape");
      means.push_back(packed(m[i])), log_stds.push_back(packed(l[i]));
    }
  }
  bool wide() const { return means[0].scalar_type() == ScalarType::Double; }
};

template <class T>
const T* read(const Tensor& t) {
  return (const T*)t.const_data_ptr();
}

Tensor moments(Tensors means, Tensors log_stds, double square, double variance, double log_std, double constant) {
  const Pairs pairs(means, log_stds);
  const Moments of = {square, variance, log_std};
  double total = constant;
  Tensor out = new_empty(means[0], nullptr, 0);
  const auto run = [&](auto* result) {
    using T = std::decay_t<decltype(*result)>;
    for (size_t i = 0; i < pairs.means.size(); ++i) {
      const Tensor &m = pairs.means[i], &l = pairs.log_stds[i], std = exponential(l);
      total += of.value(read<T>(m), read<T>(l), read<T>(std), m.numel());
    }
    *result = (T)total;
  };
  if (pairs.wide()) run((double*)out.mutable_data_ptr());
  else run((float*)out.mutable_data_ptr());
  return out;
}

// The gradients of all means, then those of all log_stds.
Tensors moments_backward(const Tensor& grad, Tensors means, Tensors log_stds, double square, double variance, double log_std) {
  const Pairs pairs(means, log_stds);
  const Moments of = {square, variance, log_std};
  STD_TORCH_CHECK(grad.numel() == 1 && grad.scalar_type() == means[0].scalar_type(), "whvi: grad must be as the result");
  Tensors out;
  for (const Tensors* all : {&means, &log_stds})
    for (const Tensor& t : *all) out.push_back(shaped_like(t));
  const auto run = [&](const auto* upstream) {
    using T = std::decay_t<decltype(*upstream)>;
    for (size_t i = 0; i < means.size(); ++i)
      of.gradients((double)*upstream, read<T>(pairs.means[i]), read<T>(exponential(pairs.log_stds[i])),
                   (T*)out[i].mutable_data_ptr(), (T*)out[means.size() + i].mutable_data_ptr(), means[i].numel());
  };
  if (pairs.wide()) run(read<double>(grad));
  else run(read<float>(grad));
  return out;
}

}  // namespace
