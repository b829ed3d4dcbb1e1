"""An ablation as a waterfall: from the naive variant's step to the full card's, a bar for each optimisation."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from tfperf.report.ablation import format_digits, get_median_ms
from tfperf.report.numbers import MISSING
from tfperf.report.style import BAND, FAILED, MEAN, REPLICA, THIRD, escape_math, make_axes_grid

Entry = Mapping[str, Any]
Bar = tuple[float, float, str, str]  # from, to, colour, text
ROW, ROOM = 0.36, 0.35  # inches of a row, and of room at the ends


def draw_waterfall(report: Mapping[str, Any]) -> Figure:
    """Left: ms per step as each optimisation is added. Right: how much slower the full card is without each.

    Logarithmic axes, so that a bar's length is a factor; bars to the wrong side have the colour of failures.
    """
    series = report["series"]
    names = [*(("" if i == 0 else "+ ") + escape_math(str(e["name"])) for i, e in enumerate(series)), "full engine"]
    height = ROW * len(names) + ROOM
    figure, (steps, without) = make_axes_grid(1, 2, width=11.0, height=height, left=1.35, wspace=0.35, right=0.35)
    bars = [*_make_step_bars(series), _make_total_bar(series[-1], "full engine")]
    _draw_bars(steps, names, bars, first=_compute_lowest(series))
    steps.set_xlabel("ms per step")
    steps.set_title(escape_math(", ".join(filter(None, [report["title"] or "ablation", report["setting"]]))))
    _draw_bars(without, [""] * len(names), [*(_make_slowdown_bar(e) for e in series), None], first=None)
    without.set(xlabel="times slower without it", title="full engine without one of them")
    return figure


def _make_step_bars(series: Sequence[Entry]) -> list[Bar | None]:
    """The naive variant in full, then what each variant changes."""
    out = [_make_total_bar(series[0], "naive")]
    for before, entry in pairwise(series):
        a, b = get_median_ms(before), get_median_ms(entry)
        if a is None or b is None:
            out.append(None)
        else:
            out.append((a, b, THIRD if b <= a else FAILED, f"× {format_digits(a / b)}"))
    return out


def _make_total_bar(entry: Entry, name: str) -> Bar | None:
    ms = get_median_ms(entry)
    return None if ms is None else (0.0, ms, REPLICA if name == "naive" else MEAN, f"{format_digits(ms)} ms")


def _make_slowdown_bar(entry: Entry) -> Bar | None:
    factor = entry["slowdown_without"]
    return None if factor is None else (1.0, factor, BAND if factor >= 1 else FAILED, f"× {format_digits(factor)}")


def _compute_lowest(series: Sequence[Entry]) -> float:
    """Where bars from zero begin on a logarithmic axis."""
    known = [ms for ms in map(get_median_ms, series) if ms]
    return min(known) / 3 if known else 0.1


def _draw_bars(axis: Axes, names: Sequence[str], bars: Sequence[Bar | None], first: float | None) -> None:
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
