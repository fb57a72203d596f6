// What the operators of binding.cpp share: tensors of the stable ABI as raw memory, and how rows are divided among threads.
#pragma once
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

Tensor packed(const Tensor& t) { return t.is_contiguous() ? t : torch::stable::contiguous(t); }
int64_t last_size(const Tensor& t) { return t.size(t.dim() - 1); }

int64_t order(int64_t size) {
  STD_TORCH_CHECK(whvi::factor_of(size), "whvi: no Hadamard matrix is known for a last axis of ", size);
  return size;
}

// Work that is worth a thread, in elements: below it, waking the pool costs more than it saves.
constexpr int64_t kGrain = 16384;

// Canonical sizes of a call (kernels.h). Bits 4i ... 4i + 3 of `varies`: whether operand i differs from row to row, from term
// to term, from column to column, from block to block; operand 5 is the noise.
struct Dims {
  int64_t groups, rows, terms, columns, blocks, size, varies;
  bool by_row(int operand) const { return varies >> (4 * operand) & 1; }
  int64_t per_row() const { return terms * columns * blocks * size; }  // elements that a row is computed from
};

// Chunks of rows, never across groups. Their number depends on the shape alone: results do not change with threads.
struct Chunks {
  int64_t rows, per_group, total;
  Chunks(const Dims& d, int64_t minimum_rows) {
    const int64_t worth = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, d.per_row()));
    rows = std::max(worth, minimum_rows);
    per_group = d.per_row() ? (d.rows + rows - 1) / rows : 0;
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
    shared = d.rows != 1 && !d.by_row(index);
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

}  // namespace
