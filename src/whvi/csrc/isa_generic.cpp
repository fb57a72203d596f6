// The baseline of the target (SSE2 on x86-64, NEON on AArch64).
#include "standard.h"
#define WHVI_NAMESPACE generic
#define WHVI_NAME "generic"
#define WHVI_VECTOR_BYTES 16
#define WHVI_REGISTERS 8
#include "table.h"
