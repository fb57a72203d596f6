"""The constants of the counter-based normals, shared by all Python backends.

The native kernel keeps the same values in ``csrc/normal.h``; a test compares the two bit for bit.
All floats are exact float32 values.
"""

PHILOX_ROUNDS = 7
"""Rounds of Philox 4x32. Salmon et al. (SC 2011, table 2): seven pass BigCrush."""
PHILOX_M0, PHILOX_M1 = 0xD2511F53, 0xCD9E8D57
PHILOX_W0, PHILOX_W1 = 0x9E3779B9, 0xBB67AE85

SQRT_HALF_BITS = 0x3F3504F3
"""Bit pattern of sqrt(1/2): splits a float into exponent and a mantissa in [sqrt(1/2), sqrt(2))."""

E0 = -1.3862943649291992
"""-2 ln 2, the weight of the exponent in -2 ln u."""

L0, L1, L2 = -4.000000476837158, -1.3330438137054443, -0.8259493708610535
"""-2 ln m = y (L0 + L1 y^2 + L2 y^4), y = (m - 1) / (m + 1); minimax on [sqrt(1/2), sqrt(2)), error 5e-7."""

S0, S1, S2, S3 = 1.5707951784133911, -0.6459259390830994, 0.07950065284967422, -0.004371014889329672
"""sin(t pi / 2) = t (S0 + S1 t^2 + ...) on [-1, 1], minimax, error 1.2e-6."""

C0, C1, C2, C3, C4 = (
    0.9999999403953552,
    -1.2336982488632202,
    0.2536507546901703,
    -0.020810628309845924,
    0.0008581906440667808,
)
"""cos(t pi / 2) = C0 + C1 t^2 + ... on [-1, 1], minimax, error 5e-8."""
