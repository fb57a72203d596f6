"""Reports as one page of HTML that needs nothing but itself: templates, one style sheet, drawings.

For packages that write reports; their extras bring Jinja2.
"""

from whvi.page.frame import frame as frame  # deprecated
from whvi.page.render import render
from whvi.page.svg import check_svg, figure_svg

__all__ = ["check_svg", "figure_svg", "render"]
