// The torch-free interface of the native kernels: raw pointers and sizes in, numbers out.
// One table of functions per instruction set; dispatch.cpp picks one at run time by cpuid.
#pragma once
#include <cstdint>

namespace whvi {

// The factor m of an order m 2^k (whvi/ops/orders.py): 1, 12, 20, 28 or 36; 0 for a size that is no order.
static inline int factor_of(int64_t size) {
  if (size <= 0) return 0;
  const int64_t low = size & -size, odd = size / low;
  if (odd == 1) return 1;
  return odd <= 9 && low >= 4 ? (int)(4 * odd) : 0;
}

enum class Storage : int { f32 = 0, f64 = 1, bf16 = 2, f16 = 3 };

// How an operand of canonical shape (R, B or 1, T or 1, C or 1, K or 1, D) is walked; a stride of 0 is a broadcast axis.
struct Operand {
  const void* data = nullptr;  // null: absent
  int64_t group = 0, row = 0, term = 0, column = 0, block = 0;  // strides in elements
};

// Where the gradient of an operand goes: `rows` is written row by row; `partial` (operands that are shared by
// all rows) is one zeroed accumulator of the elements of a group for the chunk at hand. Both null: not needed.
struct Gradient {
  void* rows = nullptr;
  void* partial = nullptr;
};

// y[r,b,k] = the sum over t and c of scale * s1 * H(g * H(s2 * x)); with noise, g + std * eps takes the place of g.
struct Chain {
  Storage storage;  // of x, y, dy, dx; the others are double for f64 and float otherwise
  int64_t groups, rows, terms, columns, blocks;
  int64_t size;  // an order
  double scale;
  Operand x, s1, g, s2, std;
  const int64_t* seed;  // one per group; null: no noise
  uint64_t offset;
  Operand noise;  // strides of the numbers of a group; its data is null
};

struct ChainGradients {
  Gradient x, s1, g, s2, std;
};

// y + mean + std * eps on contiguous rows of `size` elements, one group: numbers `offset`, ... of the stream `seed`.
struct NoisyBias {
  Storage storage;  // of y and dy; the others are double for f64 and float otherwise
  int64_t size;
  const void* std;
  uint64_t seed, offset;
};

struct Kernels {
  const char* name;
  // y = scale * H x for `rows` contiguous rows of `size` elements, which is an order; x and y equal or disjoint.
  void (*fwht)(Storage, const void* x, void* y, int64_t rows, int64_t size, double scale);
  // Rows [begin, end) of one group into y, which is contiguous (R, B, K, D) and has no axes of terms and columns.
  void (*chain)(const Chain&, void* y, int64_t group, int64_t begin, int64_t end);
  void (*chain_backward)(const Chain&, const void* dy, const ChainGradients&, int64_t group, int64_t begin, int64_t end);
  // Elements [begin, end) of a group's rows; y and out equal or disjoint.
  void (*noisy_bias)(const NoisyBias&, const void* y, const void* mean, void* out, int64_t begin, int64_t end);
  // The gradients summed over the whole rows [begin, end) of elements, into zeroed accumulators of a row; null: not needed.
  void (*noisy_bias_backward)(const NoisyBias&, const void* dy, void* dmean, void* dlog_std, int64_t begin, int64_t end);
  // Standard normals with indices start ... start + count - 1 of the stream `seed`.
  void (*normal)(uint64_t seed, uint64_t start, int64_t count, float* out);
  // out += in, the fixed-order reduction of chunk accumulators.
  void (*accumulate)(Storage compute, void* out, const void* in, int64_t count);
  // out = in, from the compute type of `storage` to `storage` itself.
  void (*store)(Storage storage, void* out, const void* in, int64_t count);
};

// The tables this build holds, best first, and whether this processor can run each.
struct Candidate {
  const Kernels* kernels;
  bool supported;
};
const Candidate* candidates(int* count);

// The table in use: the best supported one, or the one named by `use_isa`.
const Kernels& active();
// Switch tables (tests and benchmarks). False when the name is unknown or the processor cannot run it.
bool use_isa(const char* name);

}  // namespace whvi
