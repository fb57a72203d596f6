// One instruction set's table of kernels. The including file defines WHVI_NAMESPACE, WHVI_NAME, WHVI_VECTOR_BYTES,
// WHVI_REGISTERS (vectors in a block: half of the register file) and what the set offers, after its target pragma.
// Everything lives in an unnamed namespace, so that no inline function compiled for one set is linked into another.
#include "kernels.h"

namespace whvi {
namespace WHVI_NAMESPACE {
namespace {

constexpr int kVectorBytes = WHVI_VECTOR_BYTES;
constexpr int kRegisters = WHVI_REGISTERS;

inline void* allocate(size_t bytes) {
  void* p = nullptr;
  if (posix_memalign(&p, 64, bytes < 64 ? 64 : bytes) != 0) throw std::bad_alloc();
  return p;
}
inline void release(void* p) { free(p); }

#include "simd.h"
#include "butterfly.h"
#include "paley.h"
#include "orders.h"
#include "transform.h"
#include "normal.h"
#include "chain.h"
#include "walk.h"
#include "bias.h"

template <class F>
void with_storage(Storage s, F&& f) {
  switch (s) {
    case Storage::f32: return f((float*)nullptr);
    case Storage::f64: return f((double*)nullptr);
    case Storage::bf16: return f((bf16*)nullptr);
    case Storage::f16: return f((f16*)nullptr);
  }
}

void fwht(Storage s, const void* x, void* y, int64_t rows, int64_t size, double scale) {
  with_storage(s, [&](auto* tag) { Transform<std::remove_pointer_t<decltype(tag)>>::run(x, y, rows, size, scale); });
}
void chain(const Chain& c, void* y, int64_t group, int64_t begin, int64_t end) {
  with_storage(c.storage, [&](auto* tag) {
    ChainRunner<std::remove_pointer_t<decltype(tag)>>::forward(c, y, group, begin, end);
  });
}
void chain_backward(const Chain& c, const void* dy, const ChainGradients& d, int64_t group, int64_t begin, int64_t end) {
  with_storage(c.storage, [&](auto* tag) {
    ChainRunner<std::remove_pointer_t<decltype(tag)>>::backward(c, dy, d, group, begin, end);
  });
}
void noisy_bias(const NoisyBias& b, const void* y, const void* mean, void* out, int64_t begin, int64_t end) {
  with_storage(b.storage, [&](auto* tag) {
    BiasRunner<std::remove_pointer_t<decltype(tag)>>::forward(b, y, mean, out, begin, end);
  });
}
void noisy_bias_backward(const NoisyBias& b, const void* dy, void* dmean, void* dlog_std, int64_t begin, int64_t end) {
  with_storage(b.storage, [&](auto* tag) {
    BiasRunner<std::remove_pointer_t<decltype(tag)>>::backward(b, dy, dmean, dlog_std, begin, end);
  });
}
void accumulate(Storage compute, void* out, const void* in, int64_t count) {
  with_storage(compute, [&](auto* tag) {
    using T = Compute<std::remove_pointer_t<decltype(tag)>>;
    for (int64_t i = 0; i < count; ++i) ((T*)out)[i] += ((const T*)in)[i];
  });
}

void store(Storage storage, void* out, const void* in, int64_t count) {
  with_storage(storage, [&](auto* tag) {
    using S = std::remove_pointer_t<decltype(tag)>;
    using T = Compute<S>;
    for (int64_t i = 0; i < count; ++i) Memory<1, S>::store((S*)out + i, Vec<T, 1>{((const T*)in)[i]});
  });
}

}  // namespace

extern const Kernels kernels;
const Kernels kernels = {WHVI_NAME, fwht,          chain,      chain_backward, noisy_bias, noisy_bias_backward,
                         Normals::fill, accumulate, store};

}  // namespace WHVI_NAMESPACE
}  // namespace whvi
