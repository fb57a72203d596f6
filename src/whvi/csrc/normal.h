// Counter-based standard normals: Philox 4x32-7 (Salmon et al., SC 2011) and Box-Muller on the half plane.
//
// Number i of stream `seed`: group i / 64 holds the 16 counters 16 * group + lane, and word w of lane l is number
// 64 * group + 16 * w + l, so that any vector width up to 16 writes contiguously. Words (0, 1) and (2, 3) of a counter make
// one pair each. Only exactly rounded operations are used and none is fused, so that every instruction set,
// and the torch twin in ops/reference.py, gives the same bits.

struct Normals {
  static constexpr int W = kVectorBytes / 4;  // 32-bit lanes
  static constexpr int kRounds = 7, kGroup = 64, kLanes = 16;
  using U64 = Vec<uint64_t, W / 2>;
  using U32 = Vec<uint32_t, W>;
  using I32 = Vec<int32_t, W>;
  using F32 = Vec<float, W>;

  struct Keys {
    U64 k0[kRounds], k1[kRounds];
    explicit Keys(uint64_t seed) {
      uint32_t a = (uint32_t)seed, b = (uint32_t)(seed >> 32);
      for (int i = 0; i < kRounds; ++i, a += 0x9E3779B9u, b += 0xBB67AE85u) {
        k0[i] = U64{} + a;
        k1[i] = U64{} + b;
      }
    }
  };

  // Four words for W / 2 counters, each in the lower half of a 64-bit lane (the upper halves hold rubbish).
  struct Words {
    U64 w0, w1, w2, w3;
  };
  // The first two rounds see a counter whose upper half is the same in all lanes and whose words 2 and 3 are zero: half
  // of their products are the same number everywhere, and are made once per group.
  struct Start {
    U64 w2, w3;  // what round two leaves in word 3, and adds to word 2
    Start(uint64_t first, const Keys& keys) {
      const uint32_t c0 = (uint32_t)(first >> 32) ^ (uint32_t)keys.k0[0][0];
      const uint64_t p0 = (uint64_t)c0 * 0xD2511F53u;
      w2 = keys.k1[1] ^ (p0 >> 32);
      w3 = U64{} + (p0 & 0xffffffffu);
    }
  };
  WHVI_INLINE Words philox(U64 counter, const Start& start, const Keys& keys) {
    const U64 m0 = U64{} + 0xD2511F53u, m1 = U64{} + 0xCD9E8D57u;
    const U64 q0 = multiply_even<W>(counter, m0), q1 = multiply_even<W>((q0 >> 32) ^ keys.k1[0], m1);
    Words c = {(q1 >> 32) ^ keys.k0[1], q1, q0 ^ start.w2, start.w3};
#pragma GCC unroll 7
    for (int i = 2; i < kRounds; ++i) {
      const U64 p0 = multiply_even<W>(c.w0, m0), p1 = multiply_even<W>(c.w2, m1);
      c = {(p1 >> 32) ^ c.w1 ^ keys.k0[i], p1, (p0 >> 32) ^ c.w3 ^ keys.k1[i], p0};
    }
    return c;
  }
  WHVI_INLINE U32 interleave(U64 even, U64 odd) { return (U32)((even & 0xffffffffu) | (odd << 32)); }

  // The raw words of a group, in the places of the numbers they become.
  WHVI_INLINE void words(uint64_t index, const Keys& keys, float* out) {
    U64 even;
    for (int i = 0; i < W / 2; ++i) even[i] = 2 * i;
    even += index * kLanes;
    const Start start(index * kLanes, keys);
#pragma GCC unroll 4
    for (int lane = 0; lane < kLanes; lane += W) {
      const Words e = philox(even, start, keys), o = philox(even + 1, start, keys);
      store_raw(out + lane, interleave(e.w0, o.w0));
      store_raw(out + 16 + lane, interleave(e.w1, o.w1));
      store_raw(out + 32 + lane, interleave(e.w2, o.w2));
      store_raw(out + 48 + lane, interleave(e.w3, o.w3));
      even += W;
    }
  }

  // Box-Muller in two steps, in place. The first turns words a into radii sqrt(-2 ln u), u = (a >> 1) / 2^31 kept off
  // zero, with the spare bit of a as sign; ln by exponent and by atanh of the mantissa.
  WHVI_INLINE void radii(float* p) {
    const U32 a = load_raw<U32>(p);
    const F32 f = __builtin_convertvector((I32)(a >> 1), F32) + 0.5f;
    const I32 i = (I32)f - (0x3f3504f3 + (31 << 23));
    const F32 e = __builtin_convertvector(i >> 23, F32);
    const F32 m = (F32)((i & 0x7fffff) + 0x3f3504f3);
    const F32 y = (m - 1.0f) / (m + 1.0f), q = y * y;
    const F32 s = e * -1.3862943649291992f + y * ((-0.8259493708610535f * q + -1.3330438137054443f) * q + -4.000000476837158f);
    store_raw(p, (U32)square_root<W>(s) ^ (a << 31));
  }
  // The second turns words b, 16 places on, into angles t * pi / 2 on the right half plane; the sign of the radius
  // mirrors the cosine.
  WHVI_INLINE void normals(float* p) {
    const F32 r = load_raw<F32>(p), radius = (F32)((U32)r & 0x7fffffffu);
    const F32 t = __builtin_convertvector(load_raw<I32>(p + 16), F32) * 0x1p-31f, q = t * t;
    const F32 sn = t * (((-0.004371014889329672f * q + 0.07950065284967422f) * q + -0.6459259390830994f) * q + 1.5707951784133911f);
    const F32 cs = (((0.0008581906440667808f * q + -0.020810628309845924f) * q + 0.2536507546901703f) * q + -1.2336982488632202f) * q + 0.9999999403953552f;
    store_raw(p, r * cs);
    store_raw(p + 16, radius * sn);
  }

  // The three steps run one after the other over a tile in the first-level cache: each alone keeps the processor full,
  // while chained they would wait for each other's latencies.
  static void groups(uint64_t index, int64_t count, const Keys& keys, float* out) {
    constexpr int64_t kTile = 16;
    for (int64_t done = 0; done < count; done += kTile) {
      const int64_t tile = count - done < kTile ? count - done : kTile;
      float* first = out + done * kGroup;
      for (int64_t g = 0; g < tile; ++g) words(index + (uint64_t)(done + g), keys, first + g * kGroup);
      for (int64_t g = 0; g < 2 * tile; ++g)
#pragma GCC unroll 4
        for (int lane = 0; lane < kLanes; lane += W) radii(first + g * 32 + lane);
      for (int64_t g = 0; g < 2 * tile; ++g)
#pragma GCC unroll 4
        for (int lane = 0; lane < kLanes; lane += W) normals(first + g * 32 + lane);
    }
  }

  static void fill(uint64_t seed, uint64_t start, int64_t count, float* out) {
    const Keys keys(seed);
    float ragged[kGroup];
    uint64_t index = start / kGroup;
    int64_t skip = (int64_t)(start % kGroup);
    while (count > 0) {
      const int64_t whole = skip == 0 ? count / kGroup : 0;
      int64_t taken = whole * kGroup;
      if (whole) {
        groups(index, whole, keys, out);
        index += (uint64_t)whole;
      } else {  // a group of which only a part is wanted
        taken = kGroup - skip < count ? kGroup - skip : count;
        groups(index++, 1, keys, ragged);
        __builtin_memcpy(out, ragged + skip, (size_t)taken * sizeof(float));
        skip = 0;
      }
      out += taken, count -= taken;
    }
  }
};
