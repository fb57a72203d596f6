"""How the page looks: for the screen, small and large, light and dark, and for paper."""

STYLE = """
:root {
  color-scheme: light dark;
  --ground: #fff; --ink: #1b1f24; --faint: #57606a; --line: #d0d7de; --panel: #f6f8fa; --link: #0550ae;
  --better: #d7f2df; --within: #ddebfb; --worse: #fde1d3;
  --better-ink: #0b5a2a; --within-ink: #0a4a86; --worse-ink: #8f2d05;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0f1318; --ink: #e3e8ee; --faint: #a3adb8; --line: #343c46; --panel: #181e25; --link: #7db7ff;
    --better: #12381f; --within: #12304f; --worse: #4a2413;
    --better-ink: #7fe0a0; --within-ink: #8cc4ff; --worse-ink: #ffab85;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 1rem; max-width: 76rem; background: var(--ground); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: anywhere;
}
h1 { font-size: 1.6rem; line-height: 1.25; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 0.25rem; padding-top: 0.75rem; border-top: 1px solid var(--line); }
p, li, dd { max-width: 48rem; }
a { color: var(--link); }
code { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 0.9em; }
nav ol { columns: 20rem; column-gap: 2.5rem; padding-left: 1.5rem; }
.source, .caption, figcaption, .legend { color: var(--faint); font-size: 0.9rem; }
.source { margin-top: 0; }
.missing { border-left: 4px solid var(--worse-ink); background: var(--panel); padding: 0.5rem 0.75rem; }
.legend { list-style: none; padding: 0; }
.scroll { overflow-x: auto; margin: 1.25rem 0 0.5rem; border: 1px solid var(--line); border-radius: 6px; }
.scroll:focus-visible { outline: 2px solid var(--link); }
table { border-collapse: separate; border-spacing: 0; font-size: 0.85rem; line-height: 1.3; width: 100%; }
table { font-variant-numeric: tabular-nums; overflow-wrap: normal; }
caption { text-align: left; font-weight: 600; padding: 0.5rem 0.6rem; background: var(--panel); }
caption span { position: sticky; left: 0.6rem; display: inline-block; max-width: calc(100vw - 4rem); }
th, td { padding: 0.35rem 0.4rem; border-top: 1px solid var(--line); text-align: right; vertical-align: top; }
td { white-space: nowrap; }
thead th { background: var(--panel); vertical-align: bottom; font-weight: 600; }
th:first-child { position: sticky; left: 0; text-align: left; background: var(--panel); max-width: 10rem; z-index: 1; }
td small { display: block; color: var(--faint); font-size: 0.72rem; }
td b { font-weight: 600; }
.better, .within, .worse { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
.better { background: var(--better); } .better i { color: var(--better-ink); }
.within { background: var(--within); } .within i { color: var(--within-ink); }
.worse { background: var(--worse); } .worse i { color: var(--worse-ink); }
.better small, .within small, .worse small { color: inherit; opacity: 0.85; }
i { font-style: normal; }
figure { margin: 1.25rem 0; }
.drawing { background: #fff; border: 1px solid var(--line); border-radius: 6px; padding: 0.5rem; overflow-x: auto; }
.drawing svg { display: block; margin: 0 auto; max-width: 100%; height: auto; }
details { margin: 0.5rem 0; font-size: 0.85rem; }
summary { cursor: pointer; color: var(--link); }
dl { display: grid; grid-template-columns: minmax(6rem, max-content) 1fr; gap: 0.15rem 1rem; }
dt { font-weight: 600; } dd { margin: 0; overflow-wrap: anywhere; }
.notes { padding-left: 1.25rem; color: var(--faint); }
@media screen and (max-width: 40rem) {
  body { padding: 0.75rem; } dl { display: block; } dd { margin-bottom: 0.4rem; }
  .drawing svg { min-width: 30rem; }
}
@media print {
  :root {
    --ground: #fff; --ink: #000; --faint: #333; --line: #999; --panel: #fff; --link: #000;
    --better: #e6f5ea; --within: #e9f1fb; --worse: #f8ddd0;
    --better-ink: #000; --within-ink: #000; --worse-ink: #000;
  }
  @page { margin: 12mm; }
  html { font-size: 9.5pt; }
  body { max-width: none; padding: 0; }
  .scroll, .drawing { overflow: visible; border: 0; }
  table { font-size: 6.8pt; } td small { font-size: 5.6pt; }
  th, td { padding: 1.5pt 2.5pt; } th:first-child { position: static; }
  tr, figure, .missing { break-inside: avoid; } h2, h3, caption { break-after: avoid; }
  thead { display: table-header-group; }
  details { font-size: 7pt; } details::details-content { content-visibility: visible; display: block; }
  summary { list-style: none; font-weight: 600; }
  .notes { columns: 2; padding-left: 2em; }
  .screen { display: none; }
}
"""
SCRIPT = "addEventListener('beforeprint', () => document.querySelectorAll('details').forEach(d => { d.open = true; }));"
"""Notes are printed, also by browsers that do not show a closed ``<details>`` by the rule in the style."""
