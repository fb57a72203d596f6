"""Prints ``paley.h``, the additions of ``whvi.ops.orders`` as constants: ``python paley.py > paley.h``."""

from collections.abc import Iterable

from whvi.ops.orders import FIELDS, additions


def braces(items: Iterable[object]) -> str:
    """An initialiser."""
    return "{" + ", ".join(map(str, items)) + "}"


def header() -> str:
    """The text of the header."""
    lines = [
        "// Made by paley.py from whvi/ops/orders.py, which explains it; a test compares the two. Do not edit.",
        "template <int M>",
        "struct Paley;",
    ]
    for m in FIELDS:
        pairs, sums = additions(m)
        longest = 1 + max(map(len, sums))
        lines += [
            "template <>",
            f"struct Paley<{m}> {{",
            f"  static constexpr int kPairs = {len(pairs)};",
            f"  static constexpr uint8_t pairs[][2] = {braces(map(braces, pairs))};",
            f"  static constexpr uint8_t sums[][{longest}] = {{  // how many, then which",
            *(f"      {braces((len(row), *row))}," for row in sums),
            "  };",
            "};",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(header())
