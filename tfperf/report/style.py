"""How figures look, and how they become PNG files: matplotlib's object interface, no global figure, equal bytes."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

import matplotlib
import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser

from tfperf.console.words import escape_controls

DPI = 120
MEAN, BAND, REPLICA, FAILED, SECOND, THIRD = "#0b3d75", "#6f9fd8", "#7a7a7a", "#d1670c", "#c0504d", "#4f8a3d"
LEGEND_ROOM = 1.55  # inches
STYLE = {
    "font.size": 9.0, "axes.titlesize": 9.5, "axes.titlelocation": "left", "axes.titley": 1.0, "axes.labelsize": 9.0,
    "legend.fontsize": 8.0, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#e4e4e4", "grid.linewidth": 0.6, "axes.axisbelow": True, "legend.frameon": False,
    "path.simplify_threshold": 0.5, "xtick.labelsize": 8.0, "ytick.labelsize": 8.0,
}  # fmt: skip


@contextmanager
def apply_style() -> Iterator[None]:
    """Matplotlib's defaults with STYLE on top, whatever the user's own settings; they are back afterwards."""
    with matplotlib.style.context(["default", STYLE]), warnings.catch_warnings():
        # titles come from users; a glyph that the font lacks is drawn as a box, which is no reason to talk
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def make_axes_grid(rows: int, columns: int, width: float, height: float, **inches: float) -> tuple[Figure, list[Axes]]:
    """A figure of rows x columns axes, each `height` inches high, `width` inches wide in all; axes row by row.

    `inches` are the room left, right, above (top), below (bottom) and between (wspace, hspace), with defaults. Fixed
    rooms instead of a layout engine: that would draw each figure twice.
    """
    room = {"left": 0.6, "right": 0.15, "top": 0.35, "bottom": 0.5, "wspace": 0.55, "hspace": 0.65} | inches
    inner = (width - room["left"] - room["right"] - (columns - 1) * room["wspace"]) / columns
    total = room["top"] + room["bottom"] + rows * height + (rows - 1) * room["hspace"]
    figure = Figure(figsize=(width, total))
    FigureCanvasAgg(figure)
    axes = figure.subplots(
        rows, columns, squeeze=False,
        gridspec_kw={
            "left": room["left"] / width, "right": 1 - room["right"] / width, "bottom": room["bottom"] / total,
            "top": 1 - room["top"] / total, "wspace": room["wspace"] / inner, "hspace": room["hspace"] / height,
        },
    )  # fmt: skip
    return figure, list(axes.flat)


def place_legend(axis: Axes) -> None:
    """Right of the axis, where it hides no curve; it takes LEGEND_ROOM inches."""
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)


def to_png(figure: Figure) -> bytes:
    """The figure as a PNG file; equal figures give equal bytes."""
    for axis in (a for axes in figure.axes for a in (axes.xaxis, axes.yaxis)):
        if not axis.get_label_text():
            axis.set_label_coords(0, 0)  # fixed: else it is kept clear of the ticks, which are measured for it
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()


def escape_math(text: str) -> str:
    """A user's text for one line of matplotlib: mathematics between dollars where that parses, else all as it is."""
    text = escape_controls(" ".join(text.splitlines()))
    if "$" not in text:
        return text
    try:
        MathTextParser("path").parse(text)
    except (ValueError, RuntimeError):
        return text.replace("$", r"\$")
    return text
