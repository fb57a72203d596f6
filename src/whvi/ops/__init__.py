"""The transform, its fused chain and its noise as PyTorch operators."""

from whvi.ops.bias import noisy_bias
from whvi.ops.chain import chain, noisy_chain
from whvi.ops.native import KernelInfo, kernel_info
from whvi.ops.noise import draw_seed, normal, seeded, seeds_from
from whvi.ops.orders import is_order, next_order
from whvi.ops.padding import pad
from whvi.ops.removed import energy as energy
from whvi.ops.transform import fwht, hadamard_transform

__all__ = [
    "KernelInfo",
    "chain",
    "draw_seed",
    "fwht",
    "hadamard_transform",
    "is_order",
    "kernel_info",
    "next_order",
    "noisy_bias",
    "noisy_chain",
    "normal",
    "pad",
    "seeded",
    "seeds_from",
]
