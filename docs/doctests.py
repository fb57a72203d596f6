"""Examples of docstrings, ``>>>`` lines and what they print, as blocks of code; Markdown takes them for quotations."""

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?! *$).*)*", flags=re.MULTILINE)


def fenced(docstring: str) -> str:
    """The docstring with a fence around each example, which ends with its paragraph.

    >>> fenced("One.\\n\\n>>> 1 + 1\\n2\\n\\nTwo.")
    'One.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```\\n\\nTwo.'
    """
    return EXAMPLE.sub(lambda found: f"{found['indent']}```pycon\n{found[0]}\n{found['indent']}```", docstring)


class Doctests(griffe.Extension):
    """Fences the examples of each object before its docstring is read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
