// Picks the table of kernels for this processor, once, by cpuid.
#include <atomic>
#include <cstring>

#include "kernels.h"

namespace whvi {

namespace generic {
extern const Kernels kernels;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Kernels kernels;
}
namespace avx512 {
extern const Kernels kernels;
}
#endif

const Candidate* candidates(int* count) {
#if defined(__x86_64__)
  static const Candidate all[] = {
#if defined(WHVI_EMULATE_AVX512)
      {&avx512::kernels, true},
#else
      {&avx512::kernels, __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")},
#endif
      {&avx2::kernels, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")},
      {&generic::kernels, true}};
#else
  static const Candidate all[] = {{&generic::kernels, true}};
#endif
  *count = (int)(sizeof all / sizeof all[0]);
  return all;
}

static const Kernels* find(const char* name) {  // null name: the best
  int count;
  const Candidate* all = candidates(&count);
  for (int i = 0; i < count; ++i)
    if (all[i].supported && (!name || std::strcmp(name, all[i].kernels->name) == 0)) return all[i].kernels;
  return nullptr;
}

static std::atomic<const Kernels*>& slot() {
  static std::atomic<const Kernels*> chosen{find(nullptr)};
  return chosen;
}

const Kernels& active() { return *slot().load(std::memory_order_relaxed); }

bool use_isa(const char* name) {
  const Kernels* wanted = find(name);
  if (wanted) slot().store(wanted, std::memory_order_relaxed);
  return wanted != nullptr;
}

}  // namespace whvi
