// The only source that knows torch: it binds the kernels to the operators `whvi::*` through the stable ABI.
// Schemas, broadcasting, fake kernels and autograd live in Python (whvi/ops).
#include "tensors.h"

namespace {

void run_fwht(const Tensor& x, double scale, const Tensor& y) {
  const Storage storage = storage_of(x, "x");
  const int64_t dim = x.dim();
  STD_TORCH_CHECK(dim > 0, "whvi: x must have at least one axis");
  const int64_t size = order(x.size(dim - 1));
  const int64_t rows = x.numel() / size;
  const char* in = (const char*)x.const_data_ptr();
  char* out = (char*)y.mutable_data_ptr();
  if (rows * size <= kGrain) {
    whvi::active().fwht(storage, in, out, rows, size, scale);
    return;
  }
  const size_t bytes = (size_t)size * x.element_size();
  torch::stable::parallel_for(0, rows, std::max<int64_t>(1, kGrain / size), [&](int64_t begin, int64_t end) {
    whvi::active().fwht(storage, in + begin * bytes, out + begin * bytes, end - begin, size, scale);
  });
}

Tensor fwht(const Tensor& x, double scale) {
  const Tensor in = packed(x);
  Tensor y = shaped_like(in);
  run_fwht(in, scale, y);
  return y;
}

void fwht_out(const Tensor& x, double scale, Tensor out) {
  const Tensor in = packed(x);
  STD_TORCH_CHECK(out.is_contiguous() && out.numel() == x.numel() && out.scalar_type() == x.scalar_type(),
                  "whvi: out must be contiguous and have the shape and dtype of x");
  run_fwht(in, scale, out);
}

Tensor normal(const Tensor& streams, int64_t offset, int64_t numel) {
  STD_TORCH_CHECK(streams.scalar_type() == ScalarType::Long, "whvi: seed must be int64");
  const Tensor seed = packed(streams);
  const int64_t groups = seed.numel();
  Tensor out = torch::stable::empty({groups, numel}, ScalarType::Float);
  const int64_t* seeds = (const int64_t*)seed.const_data_ptr();
  float* data = (float*)out.mutable_data_ptr();
  constexpr int64_t kPiece = 8192;
  const int64_t pieces = (numel + kPiece - 1) / kPiece;
  torch::stable::parallel_for(0, groups * pieces, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t group = i / pieces, first = i % pieces * kPiece;
      whvi::active().normal((uint64_t)seeds[group], (uint64_t)(offset + first), std::min(kPiece, numel - first),
                            data + group * numel + first);
    }
  });
  return out;
}

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

Tensor chain(const Tensor& x, Maybe s1, const Tensor& g, Maybe s2, Maybe std, Maybe seed, int64_t offset,
             std::vector<int64_t> lead, int64_t groups, int64_t rows, int64_t terms, int64_t columns, int64_t blocks,
             int64_t varies, double scale) {
  const Dims d = {groups, rows, terms, columns, blocks, last_size(x), varies};
  const Inputs inputs(x, s1, g, s2, std, seed);
  const whvi::Chain c = inputs.chain(offset, d, scale);
  lead.push_back(d.size);
  Tensor y = new_empty(x, lead.data(), (int64_t)lead.size());
  void* out = y.mutable_data_ptr();
  Chunks(d, 1).each(rows, [&](int64_t, int64_t group, int64_t begin, int64_t end) {
    whvi::active().chain(c, out, group, begin, end);
  });
  return y;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> chain_backward(
    const Tensor& grad, const Tensor& x, Maybe s1, const Tensor& g, Maybe s2, Maybe std, Maybe seed, int64_t offset,
    std::vector<int64_t>, int64_t groups, int64_t rows, int64_t terms, int64_t columns, int64_t blocks,
             int64_t varies, double scale, int64_t needs) {
  const Dims d = {groups, rows, terms, columns, blocks, last_size(x), varies};
  const Inputs inputs(x, s1, g, s2, std, seed);
  const whvi::Chain c = inputs.chain(offset, d, scale);
  const Tensor dy = packed(grad);
  STD_TORCH_CHECK(dy.numel() == groups * rows * blocks * d.size && dy.scalar_type() == x.scalar_type(),
                  "whvi: dy must have the shape of the result and the dtype of x");
  const Chunks chunks(d, d.terms > 2 ? 32 : 16);  // each chunk has accumulators for all terms
  const auto slot = [&](int index, const Tensor* t) { return t && (needs >> index & 1) ? Slot(*t, index, d) : Slot(g); };
  Slot slots[] = {slot(0, &x), slot(1, pointer(s1)), slot(2, &g), slot(3, pointer(s2)), slot(4, pointer(std))};
  if (chunks.total == 0) {  // no rows or no blocks: all gradients are zero
    for (Slot& s : slots)
      if (s.data) torch::stable::zero_(s.result);
  } else {
    size_t all = 0;
    for (const Slot& s : slots) all += s.bytes(chunks);
    const std::unique_ptr<char[]> buffer(new char[all]);
    size_t used = 0;
    for (Slot& s : slots) s.partials = buffer.get() + used, used += s.bytes(chunks);
    const void* upstream = dy.const_data_ptr();
    chunks.each(rows, [&](int64_t index, int64_t group, int64_t begin, int64_t end) {
      const whvi::ChainGradients out = {slots[0].chunk(index), slots[1].chunk(index), slots[2].chunk(index),
                                        slots[3].chunk(index), slots[4].chunk(index)};
      whvi::active().chain_backward(c, upstream, out, group, begin, end);
    });
    for (const Slot& s : slots) s.reduce(d, chunks);
  }
  return {slots[0].result, slots[1].result, slots[2].result, slots[3].result, slots[4].result};
}

// torch's own exponential, so that the result has the bits of the expression it stands for.
Tensor exponential(const Tensor& t) {
  StableIValue stack[] = {torch::stable::detail::from(t)};
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::exp", "", stack, TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}

// The operands of a bias: y is (groups..., rows..., N), its parameters (groups..., N) and seed (groups...).
struct Bias {
  Storage storage;
  Tensor log_std, std, seed;
  Dims d;

  Bias(const Tensor& y, const Tensor& parameter, const Tensor& streams, bool drawn)
      : storage(storage_of(y, "y")), log_std(packed(parameter)), std(drawn ? exponential(log_std) : log_std),
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

Tensor noisy_bias(const Tensor& y, const Tensor& mean, const Tensor& log_std, const Tensor& seed, int64_t offset) {
  const Bias b(y, log_std, seed, true);
  const Tensor in = packed(y), m = packed(mean);
  b.check(m, "mean");
  Tensor out = shaped_like(y);
  const int64_t count = b.d.rows * b.d.size, pieces = (count + kGrain - 1) / kGrain;
  const size_t step = (size_t)count * y.element_size();
  const char* from = (const char*)in.const_data_ptr();
  char* to = (char*)out.mutable_data_ptr();
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t group = i / pieces, first = i % pieces * kGrain;
      whvi::active().noisy_bias(b.group(group, offset), from + (size_t)group * step, b.row(m, group), to + (size_t)group * step,
                                first, std::min(count, first + kGrain));
    }
  };
  if (b.d.groups * pieces == 1) run(0, 1);
  else torch::stable::parallel_for(0, b.d.groups * pieces, 1, run);
  return out;
}

std::tuple<Tensor, Tensor> noisy_bias_backward(const Tensor& grad, const Tensor& log_std, const Tensor& seed, int64_t offset,
                                               int64_t needs) {
  const bool for_mean = needs & 1, for_std = needs >> 1 & 1;
  const Bias b(grad, log_std, seed, for_std);
  const Tensor dy = packed(grad);
  const Chunks chunks(b.d, 16);
  const auto slot = [&](bool needed) { return needed ? Slot(b.log_std, 0, b.d) : Slot(b.log_std); };
  Slot slots[] = {slot(for_mean), slot(for_std)};
  if (chunks.total == 0) {  // no rows
    for (Slot& s : slots)
      if (s.data) torch::stable::zero_(s.result);
  } else {
    size_t all = 0;
    for (Slot& s : slots) s.shared = true, all += s.bytes(chunks);  // a single row too goes through an accumulator
    const std::unique_ptr<char[]> buffer(new char[all]);
    slots[0].partials = buffer.get(), slots[1].partials = buffer.get() + slots[0].bytes(chunks);
    const char* from = (const char*)dy.const_data_ptr();
    const size_t step = (size_t)(b.d.rows * b.d.size) * dy.element_size();
    chunks.each(b.d.rows, [&](int64_t index, int64_t group, int64_t begin, int64_t end) {
      whvi::active().noisy_bias_backward(b.group(group, offset), from + (size_t)group * step, slots[0].chunk(index).partial,
                                         slots[1].chunk(index).partial, begin * b.d.size, end * b.d.size);
    });
    for (const Slot& s : slots) s.reduce(b.d, chunks);
  }
  return {slots[0].result, slots[1].result};
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(whvi, CPU, m) {  // schemas: whvi/ops/registry.py
  m.impl("fwht", TORCH_BOX(&fwht));
  m.impl("fwht_out", TORCH_BOX(&fwht_out));
  m.impl("normal", TORCH_BOX(&normal));
  m.impl("chain", TORCH_BOX(&chain));
  m.impl("noisy_bias", TORCH_BOX(&noisy_bias));
  m.impl("noisy_bias_backward", TORCH_BOX(&noisy_bias_backward));
  m.impl("chain_backward", TORCH_BOX(&chain_backward));
}

// Plain C entry points for `whvi.kernel_info` and the tests.
extern "C" {
// The schemas that this library was built for (whvi/ops/native.py looks for these bytes before it loads the file).
__attribute__((visibility("default"), used)) extern const char whvi_interface[] = "whvi interface 2;";
__attribute__((visibility("default"))) const char* whvi_isa() { return whvi::active().name; }
__attribute__((visibility("default"))) int whvi_use_isa(const char* name) { return whvi::use_isa(name); }
}
