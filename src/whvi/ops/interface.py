"""What Python and the native library agree on: the schemas of the operators, and marks that tell an outdated library.

``setup.py`` runs this file for the marks where there is neither torch nor whvi: it imports the standard library alone.
"""

import hashlib
from pathlib import Path

_CHAIN = (
    "Tensor x, Tensor? s1, Tensor g, Tensor? s2, Tensor? std, Tensor? seed, "
    "SymInt offset, SymInt[] lead, SymInt groups, SymInt rows, SymInt terms, SymInt columns, SymInt blocks, "
    "int varies, float scale"
)
_PRODUCT = (
    "Tensor x, Tensor? s1, Tensor? s2, Tensor mean, Tensor log_std, Tensor bias_mean, Tensor bias_log_std, "
    "Tensor seed, Tensor bias_seed, int offset, int[] lead, int groups, int rows, int terms, int columns, int blocks, "
    "int varies, float scale, int bias_offset, bool stacked"
)
_MOMENTS = "Tensor[] means, Tensor[] log_stds, float square, float variance, float log_std"
SCHEMAS = {
    "fwht": "(Tensor x, float scale) -> Tensor",
    "fwht_out": "(Tensor x, float scale, Tensor(a!) out) -> ()",
    "normal": "(Tensor seed, SymInt offset, SymInt numel) -> Tensor",
    "chain": f"({_CHAIN}) -> Tensor",
    "chain_backward": f"(Tensor dy, {_CHAIN}, int needs) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "noisy_bias": "(Tensor y, Tensor mean, Tensor log_std, Tensor seed, SymInt offset) -> Tensor",
    "noisy_bias_backward": "(Tensor dy, Tensor log_std, Tensor seed, SymInt offset, int needs) -> (Tensor, Tensor)",
    "moments": f"({_MOMENTS}, float constant) -> Tensor",
    "moments_backward": f"(Tensor grad, {_MOMENTS}) -> Tensor[]",
    "product": f"({_PRODUCT}) -> Tensor",
    "product_backward": f"(Tensor dy, {_PRODUCT}, int needs) -> ({', '.join(['Tensor'] * 7)})",
}


def sources(csrc: Path) -> list[Path]:
    """Headers, then what is compiled into the library."""
    return [*sorted(csrc.glob("*.h")), *sorted(path for path in csrc.glob("*.cpp") if path.name != "fuzz.cpp")]


def marks(csrc: Path) -> list[str]:
    """What is written into a library when it is built: digests of the schemas and, where csrc is there, of the sources.

    >>> [mark.split()[1] for mark in marks(Path("no such folder"))]
    ['schemas']
    """
    agreed = {"schemas": repr(SCHEMAS).encode()}
    if csrc.is_dir():  # a frozen application may have left it out
        agreed["sources"] = b"".join(path.name.encode() + path.read_bytes() for path in sources(csrc))
    return [f"whvi {what} {hashlib.sha256(content).hexdigest()[:16]};" for what, content in agreed.items()]
