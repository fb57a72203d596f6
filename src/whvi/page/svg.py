"""A figure of matplotlib as an ``<svg>`` element that stands in a page beside others."""

import io
import re
import warnings
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from whvi.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ID = re.compile(r'\sid="([^"]+)"')
_NOT_XML = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\ud800-\\udfff\\ufffe\\uffff]")
"""Characters that no XML may hold, however they are written."""
_REFERENCE = re.compile(r'(href="#|url\(#)([^")]+)')


def figure_svg(figure: "Figure") -> str:
    """The figure as one ``<svg>`` element: no header, no date, texts as text, ids that no other figure has.

    Control characters of its texts become the replacement character.

    Law: equal figures give equal texts; the texts of different figures share no id.

    >>> from matplotlib.figure import Figure
    >>> figure = Figure(figsize=(2, 1))
    >>> _ = figure.subplots().plot([0, 1], "o-")
    >>> figure_svg(figure)[:4], figure_svg(figure) == figure_svg(figure)
    ('<svg', True)
    """
    import matplotlib

    file = io.StringIO()
    fonts = ["DejaVu Sans", "Verdana", "Arial"]
    settings: Any = {"svg.hashsalt": "whvi", "svg.fonttype": "none", "font.sans-serif": fonts}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a browser draws texts in fonts of its own
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = file.getvalue()
    text = text[text.index("<svg") :].strip()
    # This rule would hold for the page around the figure too; on the element itself the figure inherits it.
    text = re.sub(r"<defs>\s*<style[^>]*>[^<]*</style>\s*</defs>\s*", "", text, count=1)
    text = text.replace("<svg ", '<svg style="stroke-linejoin: round; stroke-linecap: butt" ', 1)
    return _own_ids(_NOT_XML.sub("\ufffd", text))


def _own_ids(text: str) -> str:
    """Ids that nothing refers to leave; the others are counted, behind a prefix made of the whole text."""
    used = dict.fromkeys(match[2] for match in _REFERENCE.finditer(text))
    numbers = {name: str(number) for number, name in enumerate(used)}
    text = _ID.sub(lambda match: f' id="{numbers[match[1]]}"' if match[1] in numbers else "", text)
    text = _REFERENCE.sub(lambda match: match[1] + numbers[match[2]], text)
    prefix = "f" + sha256(text.encode()).hexdigest()[:10]
    text = _ID.sub(lambda match: f' id="{prefix}-{match[1]}"', text)
    return _REFERENCE.sub(lambda match: f"{match[1]}{prefix}-{match[2]}", text)


def check_svg(text: str) -> str:
    """The text itself, if it is one ``<svg>`` element that runs nothing and asks for nothing from outside.

    >>> check_svg("<svg><script/></svg>")
    Traceback (most recent call last):
    ...
    whvi.errors.ArgumentError: a figure holds a <script>; a report shows drawings alone
    """
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ArgumentError(f"a figure must be an svg element ({error}); create it with figure_svg") from error
    if not text.startswith("<svg") or root.tag.rpartition("}")[2] != "svg":
        raise ArgumentError(f"a figure starts with {text[:20]!r}; give an <svg> element, as figure_svg makes it")
    for element in root.iter():
        if element.tag.rpartition("}")[2] in ("script", "foreignObject"):
            raise ArgumentError(f"a figure holds a <{element.tag.rpartition('}')[2]}>; a report shows drawings alone")
        for name, value in element.items():
            outside = name.rpartition("}")[2] in ("href", "src") and not value.startswith(("#", "data:"))
            if outside or re.search(r"url\(\s*['\"]?(?!#|data:|['\"\s])", value):
                raise ArgumentError(f"a figure refers to {value[:60]!r}; a report holds all it shows")
    return text
