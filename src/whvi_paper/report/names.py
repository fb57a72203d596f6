"""Names of exhibits, fit for links and files."""

import re
from collections.abc import Iterable

from whvi_paper.blocks import Shown


def anchors(shown: Iterable[Shown]) -> list[str]:
    """For each exhibit its name in small letters, digits and hyphens.

    Law: no two are equal.

    >>> anchors([Shown("UCI / shallow", "", "", "", []), Shown("uci shallow", "", "", "", [])])
    ['uci-shallow', 'uci-shallow-2']
    """
    names: dict[str, None] = {}
    for exhibit in shown:
        name = base = re.sub(r"[^a-z0-9]+", "-", exhibit.name.lower()).strip("-") or "exhibit"
        while name in names:
            name = f"{base}-{len(names) + 1}" if name == base else f"{name}x"
        names[name] = None
    return list(names)
