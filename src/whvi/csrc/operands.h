// What the operators of binding.cpp are given, checked and in raw memory: the operands of the chain and those of a bias.
#pragma once
#include "tensors.h"

namespace {

whvi::Operand strides(int index, const Dims& d) {
  const int64_t sizes[] = {d.rows, d.terms, d.columns, d.blocks};
  int64_t found[4], step = d.size;
  for (int axis = 3; axis >= 0; --axis) {
    const int64_t count = d.varies >> (4 * index + axis) & 1 ? sizes[axis] : 1;
    found[axis] = count == 1 ? 0 : step;
    step *= count;
  }
  return {nullptr, step, found[0], found[1], found[2], found[3]};
}
whvi::Operand operand(const Tensor* t, int index, const Dims& d, const char* name) {
  if (!t) return {};
  whvi::Operand o = strides(index, d);
  STD_TORCH_CHECK(t->dim() > 0 && t->size(t->dim() - 1) == d.size && t->numel() == d.groups * o.group, "whvi: ", name, " does not fit its layout");
  o.data = t->const_data_ptr();
  return o;
}
// The noise has numbers of its own for each row, whatever else it varies with.
whvi::Operand noise(const Dims& d) {
  whvi::Operand o = strides(5, d);
  if (o.row == 0) o.row = o.group;
  return o;
}

using Maybe = std::optional<Tensor>;
const Tensor* pointer(const Maybe& t) { return t ? &*t : nullptr; }

Maybe packed(const Maybe& t) { return t ? Maybe(packed(*t)) : Maybe(); }

struct Inputs {
  Tensor x;
  Maybe s1;
  Tensor g;
  Maybe s2, std, seed;

  Inputs(const Tensor& x, const Maybe& s1, const Tensor& g, const Maybe& s2, const Maybe& std, const Maybe& seed)
      : x(packed(x)), s1(packed(s1)), g(packed(g)), s2(packed(s2)), std(packed(std)), seed(packed(seed)) {}

  whvi::Chain chain(int64_t offset, const Dims& d, double scale) const {
    const Storage storage = storage_of(x, "x");
    const ScalarType compute = storage == Storage::f64 ? ScalarType::Double : ScalarType::Float;
    for (const Tensor* t : {pointer(s1), &g, pointer(s2), pointer(std)})
      STD_TORCH_CHECK(!t || t->scalar_type() == compute, "whvi: parameters must be in the compute dtype of x");
    STD_TORCH_CHECK((bool)std == (bool)seed, "whvi: noise needs both std and seed");
    STD_TORCH_CHECK(d.terms > 0 && d.columns > 0, "whvi: a sum needs terms and columns");
    STD_TORCH_CHECK(!seed || (seed->numel() == d.groups && seed->scalar_type() == ScalarType::Long),
                    "whvi: seed must be int64 with one number per group");
    return {storage,
            d.groups,
            d.rows,
            d.terms,
            d.columns,
            d.blocks,
            order(d.size),
            scale,
            operand(&x, 0, d, "x"),
            operand(pointer(s1), 1, d, "s1"),
            operand(&g, 2, d, "g"),
            operand(pointer(s2), 3, d, "s2"),
            operand(pointer(std), 4, d, "std"),
            seed ? (const int64_t*)seed->const_data_ptr() : nullptr,
            (uint64_t)offset,
            seed ? noise(d) : whvi::Operand{}};
  }
};

// torch's own exponential, so that the result has the bits of the expression it stands for.
Tensor exponential(const Tensor& t) {
  StableIValue stack[] = {torch::stable::detail::from(t)};
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::exp", "", stack, TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}

// The operands of a bias: y is (groups..., rows..., N), its parameters (groups..., N) and seed (groups...).
struct Bias {
  Storage storage;
  size_t bytes;  // of an element of y
  Tensor log_std, std, seed;
  Dims d;

  Bias(const Tensor& y, const Tensor& parameter, const Tensor& streams, bool drawn)
      : storage(storage_of(y, "y")), bytes(y.element_size()), log_std(packed(parameter)), std(drawn ? exponential(log_std) : log_std),
        seed(packed(streams)), d{seed.numel(), 1, 1, 1, 1, 0, 0} {
    STD_TORCH_CHECK(seed.scalar_type() == ScalarType::Long, "whvi: seed must be int64");
    const int64_t axes = seed.dim(), last = y.dim() - 1;
    STD_TORCH_CHECK(last >= axes, "whvi: y must have the axes of seed and one more");
    for (int64_t i = 0; i < axes; ++i)
      STD_TORCH_CHECK(y.size(i) == seed.size(i), "whvi: y does not begin with the axes of seed");
    for (int64_t i = axes; i < last; ++i) d.rows *= y.size(i);
    d.size = y.size(last);
    STD_TORCH_CHECK(d.size > 0, "whvi: the last axis of y is empty");
    check(log_std, "log_std");
  }
  void check(const Tensor& parameter, const char* name) const {
    STD_TORCH_CHECK(parameter.scalar_type() == (storage == Storage::f64 ? ScalarType::Double : ScalarType::Float),
                    "whvi: parameters must be in the compute dtype of y");
    bool fits = parameter.dim() == seed.dim() + 1 && last_size(parameter) == d.size;
    for (int64_t i = 0; fits && i < seed.dim(); ++i) fits = parameter.size(i) == seed.size(i);
    STD_TORCH_CHECK(fits, "whvi: ", name, " must have the axes of seed and the last one of y");
  }
  whvi::NoisyBias group(int64_t index, int64_t offset) const {
    return {storage, d.size, row(std, index), (uint64_t)((const int64_t*)seed.const_data_ptr())[index], (uint64_t)offset};
  }
  const void* row(const Tensor& parameter, int64_t group) const {
    return (const char*)parameter.const_data_ptr() + (size_t)(group * d.size) * parameter.element_size();
  }
};

// to *= by, for gradients.
void multiply(Tensor& to, const Tensor& by) {
  const auto run = [&](auto* out) {
    const auto* in = (const std::decay_t<decltype(*out)>*)by.const_data_ptr();
    for (int64_t i = 0, count = to.numel(); i < count; ++i) out[i] *= in[i];
  };
  if (to.scalar_type() == ScalarType::Double) run((double*)to.mutable_data_ptr());
  else run((float*)to.mutable_data_ptr());
}

// Rows of which a layer has the first features only.
struct Cut {
  int64_t rows;
  size_t part, whole;  // bytes of a row

  Cut(const Tensor& t, int64_t features, int64_t all)
      : rows(t.numel() / features), part(features * t.element_size()), whole(all * t.element_size()) {}
  size_t bytes() const { return rows * whole; }
  void narrow(const char* from, char* to) const {
    for (int64_t i = 0; i < rows; ++i) std::memcpy(to + i * part, from + i * whole, part);
  }
  void widen(const char* from, char* to) const {  // with zeros
    for (int64_t i = 0; i < rows; ++i) {
      std::memcpy(to + i * whole, from + i * part, part);
      std::memset(to + i * whole + part, 0, whole - part);
    }
  }
};

}  // namespace
