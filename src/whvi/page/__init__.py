"""Reports as one page of HTML that needs nothing but itself: the frame of a page, its style, drawings in it."""

from whvi.page.frame import frame
from whvi.page.svg import check_svg, figure_svg

__all__ = ["check_svg", "figure_svg", "frame"]
