// The only source that knows torch: it binds the kernels to the operators `whvi::*` through the stable ABI.
// Schemas, broadcasting, fake kernels and autograd live in Python (whvi/ops).
#include "moments.h"

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

void run_chain(const whvi::Chain& c, const Dims& d, void* out) {
  Chunks(d, 1).each(d.rows, [&](int64_t, int64_t group, int64_t begin, int64_t end) {
    whvi::active().chain(c, out, group, begin, end);
  });
}

Tensor chain(const Tensor& x, Maybe s1, const Tensor& g, Maybe s2, Maybe std, Maybe seed, int64_t offset,
             std::vector<int64_t> lead, int64_t groups, int64_t rows, int64_t terms, int64_t columns, int64_t blocks,
             int64_t varies, double scale) {
  const Dims d = {groups, rows, terms, columns, blocks, last_size(x), varies};
  const Inputs inputs(x, s1, g, s2, std, seed);
  const whvi::Chain c = inputs.chain(offset, d, scale);
  lead.push_back(d.size);
  Tensor y = new_empty(x, lead.data(), (int64_t)lead.size());
  run_chain(c, d, y.mutable_data_ptr());
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

// out = y + bias, contiguous; y may be out.
void run_noisy_bias(const Bias& b, const Tensor& mean, int64_t offset, const void* y, void* out) {
  const Tensor m = packed(mean);
  b.check(m, "mean");
  const int64_t count = b.d.rows * b.d.size, pieces = (count + kGrain - 1) / kGrain;
  const size_t step = (size_t)count * b.bytes;
  const char* from = (const char*)y;
  char* to = (char*)out;
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t group = i / pieces, first = i % pieces * kGrain;
      whvi::active().noisy_bias(b.group(group, offset), from + (size_t)group * step, b.row(m, group), to + (size_t)group * step,
                                first, std::min(count, first + kGrain));
    }
  };
  if (b.d.groups * pieces == 1) run(0, 1);
  else torch::stable::parallel_for(0, b.d.groups * pieces, 1, run);
}

Tensor noisy_bias(const Tensor& y, const Tensor& mean, const Tensor& log_std, const Tensor& seed, int64_t offset) {
  const Bias b(y, log_std, seed, true);
  const Tensor in = packed(y);
  Tensor out = shaped_like(y);
  run_noisy_bias(b, mean, offset, in.const_data_ptr(), out.mutable_data_ptr());
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

// A product is the chain with its noise, cut to the features of a noisy bias. Blocks are put side by side when it is stacked.
Tensor product(const Tensor& x, Maybe s1, Maybe s2, const Tensor& mean, const Tensor& log_std, const Tensor& bias_mean,
               const Tensor& bias_log_std, const Tensor& seed, const Tensor& bias_seed, int64_t offset,
               std::vector<int64_t> lead, int64_t groups, int64_t rows, int64_t terms, int64_t columns, int64_t blocks,
               int64_t varies, double scale, int64_t bias_offset, bool stacked) {
  const Dims d = {groups, rows, terms, columns, blocks, last_size(x), varies};
  const Inputs inputs(x, s1, mean, s2, exponential(log_std), seed);
  const whvi::Chain c = inputs.chain(offset, d, scale);
  const int64_t features = last_size(bias_mean), whole = stacked ? blocks * d.size : d.size;
  if (stacked) lead.pop_back();
  lead.push_back(features);
  Tensor out = new_empty(x, lead.data(), (int64_t)lead.size());
  char* to = (char*)out.mutable_data_ptr();
  if (features == whole) {
    run_chain(c, d, to);
  } else {
    const Cut cut(out, features, whole);
    const std::unique_ptr<char[]> y(new char[cut.bytes()]);
    run_chain(c, d, y.get());
    cut.narrow(y.get(), to);
  }
  run_noisy_bias(Bias(out, bias_log_std, bias_seed, true), bias_mean, bias_offset, to, to);
  return out;
}

// The gradients of the operands of the chain, in its order, then of the bias.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> product_backward(
    const Tensor& grad, const Tensor& x, Maybe s1, Maybe s2, const Tensor& mean, const Tensor& log_std, const Tensor&,
    const Tensor& bias_log_std, const Tensor& seed, const Tensor& bias_seed, int64_t offset, std::vector<int64_t> lead,
    int64_t groups, int64_t rows, int64_t terms, int64_t columns, int64_t blocks, int64_t varies, double scale,
    int64_t bias_offset, bool stacked, int64_t needs) {
  Tensor dy = packed(grad);
  const auto [dbias, dbias_log_std] = noisy_bias_backward(dy, bias_log_std, bias_seed, bias_offset, needs >> 5);
  const int64_t features = last_size(dy), whole = (stacked ? blocks : 1) * last_size(x);
  if (features != whole) {  // what was cut off had no part in the result
    const Cut cut(dy, features, whole);
    const int64_t shape[] = {cut.rows, whole};
    Tensor wide = new_empty(dy, shape, 2);
    cut.widen((const char*)dy.const_data_ptr(), (char*)wide.mutable_data_ptr());
    dy = wide;
  }
  const Tensor std = exponential(log_std);
  auto [dx, ds1, dmean, ds2, dstd] = chain_backward(dy, x, s1, mean, s2, std, seed, offset, lead, groups, rows, terms,
                                                    columns, blocks, varies, scale, needs & 31);
  if (needs >> 4 & 1) multiply(dstd, std);
  return {dx, ds1, dmean, ds2, dstd, dbias, dbias_log_std};
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(whvi, CPU, m) {  // schemas: whvi/ops/interface.py
  m.impl("fwht", TORCH_BOX(&fwht));
  m.impl("fwht_out", TORCH_BOX(&fwht_out));
  m.impl("normal", TORCH_BOX(&normal));
  m.impl("chain", TORCH_BOX(&chain));
  m.impl("noisy_bias", TORCH_BOX(&noisy_bias));
  m.impl("noisy_bias_backward", TORCH_BOX(&noisy_bias_backward));
  m.impl("chain_backward", TORCH_BOX(&chain_backward));
  m.impl("product", TORCH_BOX(&product));
  m.impl("moments", TORCH_BOX(&moments));
  m.impl("moments_backward", TORCH_BOX(&moments_backward));
  m.impl("product_backward", TORCH_BOX(&product_backward));
}

// Plain C entry points for `whvi.kernel_info` and the tests.
extern "C" {
// The schemas and sources that this library was built from (whvi/ops/native.py looks for them before it loads the file).
__attribute__((visibility("default"), used)) extern const char whvi_marks[] = WHVI_MARKS;  // setup.py defines them
__attribute__((visibility("default"))) const char* whvi_isa() { return whvi::active().name; }
__attribute__((visibility("default"))) int whvi_use_isa(const char* name) { return whvi::use_isa(name); }
}
