// The operands of an energy: pairs of tensors in raw memory, and how they are divided among threads.
#pragma once
#include "tensors.h"

namespace {

using Tensors = std::vector<Tensor>;

// Pairs of one dtype, each in pieces that may run side by side. The pieces depend on the shapes alone: results do not
// change with threads.
struct Pairs {
  Storage storage;
  Tensors means, log_stds;
  struct Piece {
    size_t pair;
    int64_t first, count;
  };
  std::vector<Piece> pieces;

  Pairs(const Tensors& m, const Tensors& l) {
    STD_TORCH_CHECK(!m.empty() && m.size() == l.size(), "whvi: an energy needs pairs, at least one");
    storage = storage_of(m[0], "means");
    STD_TORCH_CHECK(storage == Storage::f32 || storage == Storage::f64, "whvi: means must be float32 or float64");
    for (size_t i = 0; i < m.size(); ++i) {
      check_dtype(m[i]), check_dtype(l[i]);
      const auto a = m[i].sizes(), b = l[i].sizes();
      STD_TORCH_CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end()), "whvi: the tensors of a pair must have one shape");
      means.push_back(packed(m[i])), log_stds.push_back(packed(l[i]));
      for (int64_t first = 0, all = m[i].numel(); first < all; first += kGrain)
        pieces.push_back({i, first, std::min(kGrain, all - first)});
    }
  }
  void check_dtype(const Tensor& t) const {
    STD_TORCH_CHECK(storage_of(t, "a pair") == storage, "whvi: all pairs must have one dtype");
  }

  // The number that a scalar of the dtype of the pairs holds.
  double number(const Tensor& t) const {
    check_dtype(t);
    const void* p = t.const_data_ptr();
    return storage == Storage::f64 ? *(const double*)p : *(const float*)p;
  }
  Tensor scalar(double value) const {
    Tensor t = new_empty(means[0], nullptr, 0);
    void* p = t.mutable_data_ptr();
    if (storage == Storage::f64) *(double*)p = value;
    else *(float*)p = (float)value;
    return t;
  }

  template <class F>  // `f(index, piece)`
  void each(const F& f) const {
    const auto run = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) f((size_t)i, pieces[(size_t)i]);
    };
    int64_t all = 0;
    for (const Piece& p : pieces) all += p.count;
    const int64_t count = (int64_t)pieces.size();
    if (all <= kGrain) run(0, count);
    else torch::stable::parallel_for(0, count, std::max<int64_t>(1, count * kGrain / all), run);
  }
  const char* mean(const Piece& p) const { return at(means[p.pair], p.first); }
  const char* log_std(const Piece& p) const { return at(log_stds[p.pair], p.first); }
  static char* at(const Tensor& t, int64_t first) { return (char*)t.data_ptr() + (size_t)first * t.element_size(); }
};

}  // namespace
