"""The page of version 0.1, for one release."""

import warnings
from pathlib import Path

from markupsafe import Markup

from whvi.page.render import render


def frame(title: str, body: str, style: str = "") -> str:
    """The page with this title (text) and body (HTML), in the common style and that of its own."""
    warnings.warn(
        "whvi.page.frame will be removed: write a template that extends page.html, and use whvi.page.render",
        DeprecationWarning,
        stacklevel=2,
    )
    return render(Path(__file__).with_name("frame.html"), title=title, body=Markup(body), own=Markup(style))
