"""What every page has: its head, its style, and a rule that keeps it from asking for anything outside itself."""

from html import escape
from string import Template

from whvi.page.style import SCRIPT, STYLE

_PAGE = Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'unsafe-inline'; img-src data:">
<title>$title</title>
<style>$style</style>
</head>
<body>
$body
<script>$script</script>
</body>
</html>
""")


def frame(title: str, body: str, style: str = "") -> str:
    """The page with this title (text) and body (HTML), in the common style and that of its own.

    Law: a browser asks for nothing from outside the page, whatever the body holds.

    >>> "<title>a &lt; b</title>" in frame("a < b", "<p>body</p>")
    True
    """
    return _PAGE.substitute(title=escape(title), style=STYLE + style, body=body, script=SCRIPT)
