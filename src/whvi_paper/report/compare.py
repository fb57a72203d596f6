"""The table that sets our numbers beside the paper's."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan

from whvi.errors import ArgumentError
from whvi_paper.blocks import Entry, Table, TextCell
from whvi_paper.report.standing import against, deviation, paper_best, target
from whvi_paper.report.standing import tone as tone

LABELS = (
    {name: name.upper() for name in ("whvi", "g-whvi", "nf-whvi", "mfg", "mcd", "nng", "sghmc", "rmse", "mnll", "ece")}
    | {"rmse_of_samples": "RMSE of samples", "expected_nll": "expected NLL", "coverage_90": "90 % coverage"}
    | {"mnll_early": "MNLL after a fifth of the steps"}
)
"""Names as the paper writes them; others are shown as they are."""
NAME_LENGTH = 10
"""Of the records' names that are shown; the complete ones are in the provenance and in ``whvi results --json``."""
LEGEND = "In each field: our mean (std), then the paper's, then our distance to it in the paper's stds."
OURS_LEGEND = "In each field: our mean (std)."
BEST_LEGEND = "“Best in paper” is the paper's best method; its mark says how our WHVI stands to it."


def comparison_table(entries: Sequence[Entry], title: str, metrics: Sequence[str], caption: str = "") -> Table:
    """One row for each dataset (and depth, width, model, where they vary), for each metric a column for each method.

    Rows and methods come in the order of the entries, metrics in the order given. For several methods a last column
    of each metric names the paper's best, marked by how our WHVI stands to it. A field has one to four lines: ours, the
    paper's, the difference, and the number of splits where it is not that of the rest of the table. What was not run
    is a dash. Its note says where the number comes from.

    >>> cell = Entry("uci-regression", "whvi", "yacht", "mlp", 2, 128, "mnll", 1.19, 0.07, 8, 1.80, 1.01, 1.8932)
    >>> comparison_table([cell], "2 x 128", ["mnll"]).rows[0][1].text.splitlines()
    ['1.19 (0.07)', 'paper 1.80 (1.01)', 'corrected 1.89', '-0.7 std']
    """
    entries = [entry for entry in entries if entry.metric in metrics]
    name = _row_name(entries)
    cells: dict[tuple[str, str, str], Entry] = {}
    for entry in entries:
        key = name(entry), entry.metric, entry.method
        if key in cells:
            raise ArgumentError(f"two entries for {' / '.join(key)} in the table {title!r}; give one of them")
        cells[key] = entry
    usual = max((entry.n for entry in entries), default=0)
    columns = [column for metric in metrics for column in _columns(metric, entries)]
    rows = [
        [TextCell(row), *(_field(cells, row, metric, method, usual) for metric, method in columns)]
        for row in dict.fromkeys(map(name, entries))
    ]
    head = [f"{label(metric)} {label(method) if method else 'best in paper'}" for metric, method in columns]
    legend = [LEGEND if any(target(entry) is not None for entry in entries) else OURS_LEGEND]
    if any(method is None for _, method in columns):
        legend.append(BEST_LEGEND)
    return Table(title, ["dataset", *head], rows, " ".join(filter(None, (caption, *legend))))


def _columns(metric: str, entries: Iterable[Entry]) -> list[tuple[str, str | None]]:
    """The methods of a metric, and at the end None, for the best one, where the paper has several with WHVI."""
    mine = [entry for entry in entries if entry.metric == metric]
    known = {entry.method for entry in mine if target(entry) is not None}
    last = [None] if len(known) > 1 and "whvi" in known else []
    return [(metric, method) for method in [*dict.fromkeys(entry.method for entry in mine), *last]]


def _field(cells: dict[tuple[str, str, str], Entry], row: str, metric: str, method: str | None, usual: int) -> TextCell:
    if method is not None:
        entry = cells.get((row, metric, method))
        return TextCell("–", note="not run") if entry is None else comparison_cell(entry, usual)
    best = paper_best(entry for key, entry in cells.items() if key[:2] == (row, metric))
    if best is None:
        return TextCell("–", note="the paper has no number")
    ours = cells.get((row, metric, "whvi"))
    text = f"{target(best):.{best.paper_decimals}f}\n{label(best.method)}"
    return TextCell(text) if ours is None else TextCell(text, tone(against(ours, best)))


def method_table(
    title: str,
    entries: Iterable[Entry],
    methods: Mapping[str, str],
    usual: int | None = None,
    text: Callable[[Entry], str] | None = None,
) -> Table:
    """One row for each dataset and one column for each method, whose labels are given; for one metric of each.

    A field is as in ``comparison_table``, or says something else of the entry: ``text``. What was not run is a dash.

    >>> cell = Entry("terms", "whvi", "yacht", "mlp", 2, 128, "mnll", 1.19, 0.07, 8, parameters=1541)
    >>> table = method_table("Parameters", [cell], {"whvi": "T = 1", "mcd": "MCD"}, text=lambda e: str(e.parameters))
    >>> table.head, [cell.text for cell in table.rows[0]]
    (['dataset', 'T = 1', 'MCD'], ['yacht', '1541', '–'])
    """
    fields = {
        (entry.dataset, entry.method): comparison_cell(entry, usual) if text is None else TextCell(text(entry))
        for entry in entries
    }
    absent = TextCell("–", note="not run")
    rows = [
        [TextCell(dataset), *(fields.get((dataset, method), absent) for method in methods)]
        for dataset in dict.fromkeys(dataset for dataset, _ in fields)
    ]
    return Table(title, ["dataset", *methods.values()], rows)


def comparison_cell(entry: Entry, usual: int | None = None) -> TextCell:
    """Ours, the paper's, the distance; with the number of splits in view where it is not the usual one."""
    ours = mean_and_std(entry.mean, entry.std, entry.paper_decimals) if entry.n else "–"
    lines = [ours, *printed(entry), difference(entry)]
    if usual is not None and entry.n != usual:
        lines.append(f"{entry.n} of {usual} splits")
    return TextCell("\n".join(filter(None, lines)), tone(entry), note(entry))


def printed(entry: Entry) -> list[str]:
    """The paper's number as printed, and the corrected one where it is another; nothing where the paper has none."""
    digits = f".{entry.paper_decimals}f"
    spread = "" if entry.paper_std is None else f" ({entry.paper_std:{digits}})"
    lines = [] if entry.paper_mean is None else [f"paper {entry.paper_mean:{digits}}{spread}"]
    same = entry.paper_corrected in (None, entry.paper_mean)
    return lines if same else [*lines, f"corrected {entry.paper_corrected:{digits}}"]


def difference(entry: Entry) -> str:
    """In the paper's stds; in the metric's own unit where the paper prints a std of 0.00 or none; else ""."""
    stds, wanted = deviation(entry), target(entry)
    if wanted is None or not entry.n:
        return ""
    return f"{entry.mean - wanted:+.{max(3, entry.paper_decimals)}f}" if stds is None else f"{stds:+.1f} std"


def note(entry: Entry) -> str:
    """Where a number comes from: splits, failures, parameters, time, records."""
    parts = ["one run" if entry.n == 1 else f"{entry.n} splits"]
    parts += [f"{entry.failed} failed"] if entry.failed else []
    parts += [] if entry.parameters is None else [f"{entry.parameters:,} parameters"]
    parts += [] if entry.cpu_seconds is None else [f"CPU {duration(entry.cpu_seconds)}"]
    parts += [f"records {' '.join(name[:NAME_LENGTH] for name in entry.records)}"] if entry.records else []
    return ", ".join(parts)


def mean_and_std(mean: float, std: float, least: int = 2) -> str:
    """With ``least`` decimals, as in the paper, and with more where these would show less than two digits of the mean.

    One run has no spread: its std is nan, and not shown.

    >>> mean_and_std(3.14159, 0.71), mean_and_std(0.0791, 0.0021), mean_and_std(-1.13, 0.02), mean_and_std(3.1e-4, 2e-5)
    ('3.14 (0.71)', '0.079 (0.002)', '-1.13 (0.02)', '0.00031 (0.00002)')
    """
    decimals = next((places for places in range(least, 7) if abs(mean) >= 10.0 ** (1 - places)), least)
    return f"{mean:.{decimals}f}" if isnan(std) else f"{mean:.{decimals}f} ({std:.{decimals}f})"


def duration(seconds: float) -> str:
    """For people.

    >>> duration(3.21), duration(75), duration(5040), duration(200_000)
    ('3.2 s', '1 min 15 s', '1 h 24 min', '55 h 33 min')
    """
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def label(name: str) -> str:
    """A method or metric as the paper writes it."""
    return LABELS.get(name, name)


def _row_name(entries: Sequence[Entry]) -> Callable[[Entry], str]:
    """The dataset, with those of model, depth and width that tell the rows apart."""

    models = len({entry.model for entry in entries}) > 1
    shapes = len({(entry.depth, entry.width) for entry in entries}) > 1

    def name(entry: Entry) -> str:
        shape = f"{entry.depth} × {entry.width}"
        return " ".join([entry.dataset, *[entry.model] * models, *[shape] * shapes])

    return name
