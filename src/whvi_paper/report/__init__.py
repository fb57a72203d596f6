"""The report: all exhibits as one page of HTML, as Markdown, as JSON and in the terminal.

``standing`` says how a number stands to the paper's, ``compare`` makes tables of such numbers for the exhibits.
``summary`` is what all forms of the report begin with; ``page`` (a template that extends that of ``whvi.page``),
``document`` and ``results`` are these forms, ``commands`` the way to them.
"""

from whvi_paper.report.compare import comparison_table
from whvi_paper.report.document import markdown
from whvi_paper.report.page import write_html
from whvi_paper.report.results import entries_json, terminal_tables
from whvi_paper.report.standing import tone

__all__ = ["comparison_table", "entries_json", "markdown", "terminal_tables", "tone", "write_html"]
