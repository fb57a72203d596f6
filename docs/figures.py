"""What the pages need while they are built: figures and equations as part of the page, so that nothing is fetched."""

import sys
from io import StringIO
from typing import TYPE_CHECKING, Any

import latex2mathml.converter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

sys.modules["figures"] = sys.modules[__name__]  # for the tutorials: from figures import svg


def svg(figure: "Figure") -> str:
    """A figure as a picture that is part of a page."""
    import matplotlib as mpl

    text = StringIO()
    with mpl.rc_context({"svg.hashsalt": "whvi"}):  # the same names inside at every build
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def equation(source: str, *_: Any, **__: Any) -> str:
    """A fenced block ``math`` in LaTeX as MathML, which browsers draw by themselves."""
    found = latex2mathml.converter.convert(source.strip(), display="block")
    if "\\" in found:
        raise ValueError(f"this equation has a command that MathML does not know: {source}")
    return found


def on_config(config: Any) -> Any:
    """Equations are a fence of their own."""
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {}).setdefault("custom_fences", [])
    fences.append({"name": "math", "class": "math", "format": equation})
    return config
