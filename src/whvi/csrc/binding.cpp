// The only file that knows torch: it binds the kernels to the operators `whvi::*` through the stable ABI.
// Schemas, broadcasting, fake kernels and autograd live in Python (whvi/ops).
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "kernels.h"

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using whvi::Storage;

Storage storage_of(const Tensor& t, const char* what) {
  switch (t.scalar_type()) {
    case ScalarType::Float: return Storage::f32;
    case ScalarType::Double: return Storage::f64;
    case ScalarType::BFloat16: return Storage::bf16;
    case ScalarType::Half: return Storage::f16;
    default: STD_TORCH_CHECK(false, "whvi: ", what, " must be float32, float64, bfloat16 or float16");
  }
}

// A contiguous tensor of the given sizes. The C entry point takes half the time of the stable ABI's boxed `new_empty`, and
// allocation is most of what a small call costs.
Tensor new_empty(const Tensor& like, const int64_t* sizes, int64_t dim) {
  int64_t strides[64];
  STD_TORCH_CHECK(dim <= 64, "whvi: tensors have at most 64 axes");
  for (int64_t i = dim - 1, stride = 1; i >= 0; stride *= std::max<int64_t>(1, sizes[i--])) strides[i] = stride;
  int32_t dtype, device_type, device_index;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(like.get(), &dtype));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(like.get(), &device_type));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(like.get(), &device_index));
  AtenTensorHandle handle;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(dim, sizes, strides, dtype, device_type, device_index, &handle));
  return Tensor(handle);
}
Tensor shaped_like(const Tensor& t) { return new_empty(t, t.sizes().data(), t.dim()); }

int log2_size(int64_t size) {
  STD_TORCH_CHECK(size > 0 && (size & (size - 1)) == 0, "whvi: the last axis must be a power of two, got ", size);
  return __builtin_ctzll((unsigned long long)size);
}

// Work that is worth a thread, in elements: below it, waking the pool costs more than it saves.
constexpr int64_t kGrain = 16384;

void run_fwht(const Tensor& x, double scale, const Tensor& y) {
  const Storage storage = storage_of(x, "x");
  const int64_t dim = x.dim();
  STD_TORCH_CHECK(dim > 0, "whvi: x must have at least one axis");
  const int64_t size = x.size(dim - 1);
  const int log2 = log2_size(size);
  const int64_t rows = x.numel() / size;
  const char* in = (const char*)x.const_data_ptr();
  char* out = (char*)y.mutable_data_ptr();
  if (rows * size <= kGrain) {
    whvi::active().fwht(storage, in, out, rows, log2, scale);
    return;
  }
  const size_t bytes = (size_t)size * x.element_size();
  torch::stable::parallel_for(0, rows, std::max<int64_t>(1, kGrain / size), [&](int64_t begin, int64_t end) {
    whvi::active().fwht(storage, in + begin * bytes, out + begin * bytes, end - begin, log2, scale);
  });
}

Tensor packed(const Tensor& t) { return t.is_contiguous() ? t : torch::stable::contiguous(t); }

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

struct Dims {
  int64_t groups, rows, blocks, size, varies;
};

// Bit 2i of `varies`: operand i differs from row to row; bit 2i + 1: from block to block.
whvi::Operand operand(const Tensor* t, int index, const Dims& d, const char* name) {
  if (!t) return {};
  const int64_t b = d.varies >> (2 * index) & 1 ? d.rows : 1, k = d.varies >> (2 * index + 1) & 1 ? d.blocks : 1;
  STD_TORCH_CHECK(t->dim() > 0 && t->size(t->dim() - 1) == d.size && t->numel() == d.groups * b * k * d.size, "whvi: ", name, " does not fit its layout");
  return {t->const_data_ptr(), b * k * d.size, b == 1 ? 0 : k * d.size, k == 1 ? 0 : d.size};
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
    STD_TORCH_CHECK(!seed || (seed->numel() == d.groups && seed->scalar_type() == ScalarType::Long),
                    "whvi: seed must be int64 with one number per group");
    return {storage,
            d.groups,
            d.rows,
            d.blocks,
            log2_size(d.size),
            scale,
            operand(&x, 0, d, "x"),
            operand(pointer(s1), 1, d, "s1"),
            operand(&g, 2, d, "g"),
            operand(pointer(s2), 3, d, "s2"),
            operand(pointer(std), 4, d, "std"),
            seed ? (const int64_t*)seed->const_data_ptr() : nullptr,
            (uint64_t)offset,
            d.varies >> 11 & 1 ? d.blocks : 1};
  }
};

int64_t last_size(const Tensor& t) { return t.size(t.dim() - 1); }

// Chunks of rows, never across groups. Their number depends on the shape alone: results do not change with threads.
struct Chunks {
  int64_t rows, per_group, total;
  Chunks(const Dims& d, int64_t minimum_rows) {
    const int64_t worth = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, d.blocks * d.size));
    rows = std::max(worth, minimum_rows);
    per_group = d.blocks ? (d.rows + rows - 1) / rows : 0;
    rows = per_group ? (d.rows + per_group - 1) / per_group : 0;
    total = d.groups * per_group;
  }
  template <class F>
  void each(int64_t all_rows, const F& f) const {
    if (total == 1) return f(0, 0, 0, all_rows);
    torch::stable::parallel_for(0, total, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % per_group * rows;
        f(i, i / per_group, first, std::min(all_rows, first + rows));
      }
    });
  }
};

Tensor chain(const Tensor& x, Maybe s1, const Tensor& g, Maybe s2, Maybe std, Maybe seed, int64_t offset,
             std::vector<int64_t> lead, int64_t groups, int64_t rows, int64_t blocks, int64_t varies, double scale) {
  const Dims d = {groups, rows, blocks, last_size(x), varies};
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

// The gradient of one operand. Where all rows share the operand, each chunk has an accumulator of its own, and these are
// added in the order of the chunks.
struct Slot {
  Tensor result;
  void* data = nullptr;  // of the result; null: not needed
  int64_t count = 0;     // elements per group
  bool shared = false, low = false;
  size_t width = 0;  // bytes per accumulated element
  char* partials = nullptr;

  Slot(const Tensor& like) : result(nothing(like)) {}
  static Tensor nothing(const Tensor& like) {
    const int64_t none = 0;
    return new_empty(like, &none, 1);
  }
  Slot(const Tensor& t, int index, const Dims& d)
      : result(shaped_like(t)), data(result.mutable_data_ptr()), count(d.groups ? t.numel() / d.groups : 0) {
    shared = d.rows != 1 && !(d.varies >> (2 * index) & 1);
    low = t.element_size() == 2;  // a shared x of 16 bits is accumulated in float32
    width = low ? sizeof(float) : t.element_size();
  }
  size_t bytes(const Chunks& chunks) const { return shared ? (size_t)(chunks.total * count) * width : 0; }

  whvi::Gradient chunk(int64_t index) const {
    if (!data) return {};
    if (!shared) return {data, nullptr};
    char* own = partials + (size_t)(index * count) * width;
    std::memset(own, 0, (size_t)count * width);
    return {nullptr, own};
  }
  void reduce(const Dims& d, const Chunks& chunks) const {
    if (!shared || !data) return;
    const size_t step = (size_t)count * width;
    for (int64_t group = 0; group < d.groups; ++group) {
      char* sum = partials + (size_t)(group * chunks.per_group) * step;
      for (int64_t i = 1; i < chunks.per_group; ++i)
        whvi::active().accumulate(width == 8 ? Storage::f64 : Storage::f32, sum, sum + (size_t)i * step, count);
      whvi::active().store(storage_of(result, "a gradient"), (char*)data + (size_t)(group * count) * result.element_size(), sum, count);
    }
  }
};

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> chain_backward(
    const Tensor& grad, const Tensor& x, Maybe s1, const Tensor& g, Maybe s2, Maybe std, Maybe seed, int64_t offset,
    std::vector<int64_t>, int64_t groups, int64_t rows, int64_t blocks, int64_t varies, double scale, int64_t needs) {
  const Dims d = {groups, rows, blocks, last_size(x), varies};
  const Inputs inputs(x, s1, g, s2, std, seed);
  const whvi::Chain c = inputs.chain(offset, d, scale);
  const Tensor dy = packed(grad);
  STD_TORCH_CHECK(dy.numel() == groups * rows * blocks * d.size && dy.scalar_type() == x.scalar_type(),
                  "whvi: dy must have the shape of the result and the dtype of x");
  const Chunks chunks(d, 16);
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

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(whvi, CPU, m) {  // each operator and its twin without autograd (whvi/ops/registry.py)
  for (const char* name : {"fwht", "_fwht"}) m.impl(name, TORCH_BOX(&fwht));
  for (const char* name : {"fwht_out", "_fwht_out"}) m.impl(name, TORCH_BOX(&fwht_out));
  for (const char* name : {"normal", "_normal"}) m.impl(name, TORCH_BOX(&normal));
  for (const char* name : {"chain", "_chain"}) m.impl(name, TORCH_BOX(&chain));
  for (const char* name : {"chain_backward", "_chain_backward"}) m.impl(name, TORCH_BOX(&chain_backward));
}

// Plain C entry points for `whvi.kernel_info` and the tests.
extern "C" {
__attribute__((visibility("default"))) const char* whvi_isa() { return whvi::active().name; }
__attribute__((visibility("default"))) int whvi_use_isa(const char* name) { return whvi::use_isa(name); }
}
