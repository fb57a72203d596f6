"""A figure of matplotlib as an ``<svg>`` element: the home of these functions is ``whvi.page``."""

from whvi.page.svg import check_svg, figure_svg

__all__ = ["check_svg", "figure_svg"]
