"""The transform, its fused chain and its noise as PyTorch operators."""

from whvi.ops.bias import noisy_bias
from whvi.ops.chain import chain, noisy_chain
from whvi.ops.native import KernelInfo, kernel_info
from whvi.ops.noise import draw_seed, normal, seeded, seeds_from
from whvi.ops.padding import pad
from whvi.ops.transform import fwht

__all__ = [
    "KernelInfo",
    "chain",
    "draw_seed",
    "fwht",
    "kernel_info",
    "noisy_bias",
    "noisy_chain",
    "normal",
    "pad",
    "seeded",
    "seeds_from",
]
