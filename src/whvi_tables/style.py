"""What a report of a table adds to the common style of pages."""

STYLE = """
:root { --main: #0b62b8; --second: #b35900; --miss: #c2321b; --soft: #dbe9f8; --warn: #fbe3de; }
@media (prefers-color-scheme: dark) {
  :root { --main: #6cb2ff; --second: #f0a95a; --miss: #ff8a73; --soft: #16304c; --warn: #47211b; }
}
body { max-width: 70rem; padding: 1.5rem 1.25rem 3rem; }
h1 { font-size: 2rem; margin: 0 0 0.5rem; }
h2 { border: 0; margin: 2.75rem 0 0.75rem; padding: 0; font-size: 1.25rem; }
.kicker { color: var(--faint); margin: 0 0 0.25rem; font-size: 0.9rem; }
.lead { font-size: 1.1rem; max-width: 46rem; margin: 0 0 0.5rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: 0.9rem; margin: 1.5rem 0; }
.card { border: 1px solid var(--line); border-radius: 10px; padding: 0.8rem 1rem; background: var(--panel); }
.card h3 { margin: 0; font-size: 0.85rem; font-weight: 600; color: var(--faint); }
.card b { display: block; font-size: 1.7rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
.card small { color: var(--faint); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1.5rem 1.25rem; }
figure { margin: 0; min-width: 0; }
figcaption { margin-top: 0.4rem; }
figure h3 { margin: 0 0 0.4rem; font-size: 1rem; }
.drawing { background: var(--panel); border-radius: 10px; padding: 0.75rem; }
.drawing svg { width: 100%; }
.tall { max-height: 34rem; overflow: auto; }
.tall thead th { position: sticky; top: 0; z-index: 2; }
.scroll { border-radius: 10px; }
table.plain th:first-child { max-width: 16rem; }
th.left, td.left { text-align: left; white-space: normal; min-width: 14rem; }
th.word, td.word { text-align: left; }
tr.miss td, tr.miss th { background: var(--warn); }
.range { position: relative; display: block; min-width: 11rem; height: 1.1rem; }
.range span { position: absolute; top: 0.4rem; height: 0.3rem; border-radius: 0.2rem; }
.range span { background: var(--main); opacity: 0.45; }
.range i { position: absolute; top: 0.15rem; width: 2px; height: 0.8rem; margin-left: -1px; background: var(--main); }
.range b { position: absolute; top: 0.3rem; width: 0.5rem; height: 0.5rem; margin-left: -0.25rem; border-radius: 50%;
  background: var(--ink); }
.bar { position: relative; display: block; min-width: 9rem; height: 0.6rem; margin-top: 0.25rem; border-radius: 0.3rem;
  background: var(--line); overflow: hidden; }
.bar span { position: absolute; inset: 0 auto 0 0; background: var(--main); }
tr.miss .bar span, tr.miss .range span, tr.miss .range i { background: var(--miss); }
.range *, .bar, .bar span, tr.miss td { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
.good { color: var(--better-ink); } .bad { color: var(--worse-ink); }
@media screen and (max-width: 40rem) {
  body { padding: 1rem 0.9rem 2rem; } h1 { font-size: 1.6rem; } .drawing svg { min-width: 0; }
  .cards { grid-template-columns: 1fr 1fr; gap: 0.6rem; }
  .card { padding: 0.6rem 0.7rem; } .card b { font-size: 1.3rem; }
}
@media print {
  :root { --main: #0b62b8; --second: #b35900; --miss: #c2321b; --warn: #fbe3de; }
  .figures { grid-template-columns: 1fr 1fr; } .cards { grid-template-columns: repeat(4, 1fr); }
  .tall { max-height: none; overflow: visible; } .tall thead th { position: static; }
  .card { break-inside: avoid; }
}
"""
