"""Templates of Jinja2 to pages that ask for nothing outside themselves."""

from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from whvi.page.svg import check_svg

_HOME = Path(__file__).parent


def render(template: Path, **values: Any) -> str:
    """The page of a template that extends ``page.html`` of this package and may import ``parts.html``.

    Args:
        template: its file; others beside it are found too.
        values: what it shows, with the page's ``title``. Texts are escaped; an svg goes through the filter ``svg``.

    Law: a browser asks for nothing from outside the page, and runs no script but that of ``page.js``, whatever the
    values hold.
    """
    environment = Environment(
        loader=FileSystemLoader([template.parent, _HOME]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["svg"] = lambda text: Markup(check_svg(text))
    script = (_HOME / "page.js").read_text(encoding="utf-8")
    style = (_HOME / "page.css").read_text(encoding="utf-8")
    page = environment.get_template(template.name)
    return page.render(style=Markup(style), script=Markup(script), policy=policy(script), **values)


def policy(script: str) -> str:
    """The content security policy of a page that runs this script alone; drawings and bars have styles of their own.

    >>> policy("")[:96]
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5"
    """
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"
