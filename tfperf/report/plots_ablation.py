"""An ablation as a waterfall: from the naive form's step to the engine's, a bar for each optimisation."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from tfperf.report.ablation import digits, median
from tfperf.report.numbers import MISSING
from tfperf.report.style import BAND, FAILED, MEAN, REPLICA, THIRD, grid, safe_text

Entry = Mapping[str, Any]
Bar = tuple[float, float, str, str]  # from, to, colour, text
ROW, ROOM = 0.36, 0.35  # inches of a row, and of room at the ends


def waterfall_figure(report: Mapping[str, Any]) -> Figure:
    """Left: ms per step as each optimisation is added. Right: how much slower the full form is without each.

    Logarithmic axes, so that a bar's length is a factor; bars to the wrong side have the colour of failures.
    """
    series = report["series"]
    names = [*(("" if i == 0 else "+ ") + safe_text(str(e["name"])) for i, e in enumerate(series)), "full engine"]
    height = ROW * len(names) + ROOM
    figure, (steps, without) = grid(1, 2, width=11.0, height=height, left=1.35, wspace=0.35, right=0.35)
    _bars(steps, names, [*_steps(series), _total(series[-1], "full engine")], first=_lowest(series))
    steps.set_xlabel("ms per step")
    steps.set_title(safe_text(", ".join(filter(None, [report["title"] or "ablation", report["setting"]]))))
    _bars(without, [""] * len(names), [*(_slower(e) for e in series), None], first=None)
    without.set_xlabel("times slower without it")
    without.set_title("full engine without one of them")
    return figure


def _steps(series: Sequence[Entry]) -> list[Bar | None]:
    """The naive form in full, then what each form changes."""
    out = [_total(series[0], "naive")]
    for before, entry in pairwise(series):
        a, b = median(before), median(entry)
        if a is None or b is None:
            out.append(None)
        else:
            out.append((a, b, THIRD if b <= a else FAILED, f"× {digits(a / b)}"))
    return out


def _total(entry: Entry, name: str) -> Bar | None:
    ms = median(entry)
    return None if ms is None else (0.0, ms, REPLICA if name == "naive" else MEAN, f"{digits(ms)} ms")


def _slower(entry: Entry) -> Bar | None:
    factor = entry["slowdown_without"]
    return None if factor is None else (1.0, factor, BAND if factor >= 1 else FAILED, f"× {digits(factor)}")


def _lowest(series: Sequence[Entry]) -> float:
    """Where bars from zero begin on a logarithmic axis."""
    known = [ms for ms in map(median, series) if ms]
    return min(known) / 3 if known else 0.1


def _bars(axis: Axes, names: Sequence[str], bars: Sequence[Bar | None], first: float | None) -> None:
    """Bars from top to bottom, from `first` on where they begin at zero; a note for those that were not measured."""
    begins = [b and (b[0] or first or 0.0) for b in bars]
    ends = [e for bar in bars if bar for e in bar[:2] if e]
    low = first or min([*ends, 1.0]) / 1.15
    high = max([*ends, 2 * low])
    axis.set_xscale("log")
    axis.set_xlim(low, high * (high / low) ** 0.22)  # room for the text
    for row, (bar, begin) in enumerate(zip(bars, begins, strict=True)):
        if bar is None or begin is None:
            if first is not None:
                axis.text(low * 1.05, row, MISSING, va="center")
            continue
        left, right = sorted((begin, bar[1]))
        axis.barh(row, right - left, left=left, height=0.62, color=bar[2])
        axis.annotate(bar[3], (right, row), (4, 0), textcoords="offset points", va="center")
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_yticks(range(len(names)), names)
    axis.grid(axis="y", visible=False)
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
