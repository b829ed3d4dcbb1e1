"""A static estimate for the terminal and the page: bytes, largest batch, who holds them, what would shrink them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfperf.report.memory_unit import SAMPLES, use_unit
from tfperf.report.numbers import MISSING, format_bytes
from tfperf.report.page import render_paragraph, render_table

MB = 1e6
SHARES = ("layer", "what", "bytes", "buffers", "largest")
BUFFERS = ("bytes", "what", "shape", "operation")
WORDS = {
    "activation": "activations", "gradient": "of the backward pass", "weight": "weights", "slot": "optimizer's slots",
    "update": "of the update", "temporary": "temporary", "constant": "constants", "given": "data",
}  # fmt: skip
# the largest deviation from peaks that were measured, and with what, by the kind of the model, in graph mode
ERRORS: Mapping[str, tuple[float, str]] = {
    "dense": (0.012, "a network of 4 layers of 512 units, batches 4096 and 16384"),
    "convolution": (0.049, "convolutional networks of 4 and 6 layers, batches 1024 to 12288"),
    "recurrent": (
        0.027,
        "bidirectional LSTMs over 30 places, batches 1024 and 4096, and with a random field on top over 40, "
        "batches 64 to 1024",
    ),
    "attention": (0.007, "a transformer of 2 blocks over 24 places, batches 512 to 2048"),
    "replicas": (
        0.013,
        "100 and 400 replicas of a network of layers of 25, 20 and 8 units; of 10, which need 8 MB, within 12 %",
    ),
    "encoder-decoder": (0.056, "an LSTM with attention over 8 and 24 places, batches 64 to 2048"),
}
XLA_ERROR = (0.006, "of networks of these kinds")


def make_static_tables(report: Mapping[str, Any]) -> RenderableType:
    """All modes of a study without steps."""
    budget = "no budget" if report["budget"] is None else f"budget {format_bytes(report['budget'])}"
    head = f"static estimate: no step was run; {budget}"
    if report["budget"] is not None:
        head += f", of which {report['margin']:.0%} stay free"
    parts: list[RenderableType] = [Text(head)]
    unit = report.get("unit", SAMPLES)
    for mode, found in report["modes"].items():
        lines = list_static_lines(mode, found, report["limit"], report["device"])
        parts += [Text(use_unit(line, unit)) for line in lines]
        parts += make_holder_tables(mode, found, unit)
    return Group(*parts)


def list_static_lines(mode: str, found: Mapping[str, Any], limit: int | None, device: str) -> Iterator[str]:
    """What the figures say, a line each."""
    if found["reason"]:
        yield f"{mode}: {MISSING}: {found['reason']}"
        return
    first = min(found["points"], key=lambda one: one["batch"])  # large batches have large constants
    slope = MISSING if found["per_sample"] is None else f"{found['per_sample'] / MB:.4g} MB"
    yield f"{mode}: before the first batch: {format_bytes(first['fixed'])}; each sample adds {slope}"
    for one in found["points"]:
        yield f"{mode}: batch {one['batch']}: {format_bytes(one['peak'])}"
    if limit is not None:
        none = "not even one sample" if any(one["batch"] == 1 for one in found["points"]) else "none was found"
        largest = none if found["largest"] is None else f"batch {found['largest']}"
        if found.get("is_bound"):
            largest = f"at least {largest}, above which none was tried"
        yield f"{mode}: the largest within {format_bytes(limit)}: {largest}, by the estimate"
    yield f"{mode}: {describe_error(found, device)}"


def describe_error(found: Mapping[str, Any], device: str) -> str:
    """How far estimates were from measured peaks, for such a model."""
    if device == "gpu":
        return "the estimate is of kernels for the processor; its error on GPUs has not been measured"
    if found["compiled"]:
        error, where = XLA_ERROR
        return f"XLA's own figures, which {where} were within {error:.1%} of the peaks measured on the processor"
    if found["kind"] not in ERRORS:
        return "the error for such a model has not been measured"
    error, where = ERRORS[found["kind"]]
    return (
        f"estimates for such models were within {error:.1%} of the least peak measured on the processor, with {where}; "
        "on GPUs the error has not been measured"
    )


def make_holder_tables(
    mode: str, found: Mapping[str, Any], unit: Sequence[str] = SAMPLES
) -> list[RenderableType]:  # fmt: skip
    """Layers, buffers and savings."""
    if not found.get("layers"):
        return []
    at = use_unit(f"{mode}: alive at the peak of batch {found['shown']}", unit)
    tables: list[RenderableType] = [
        _make_table(f"{at}, by layer", SHARES, list_layer_rows(found)),
        _make_table(f"{at}, the largest buffers", BUFFERS, list_buffer_rows(found)),
    ]
    if found["savings"]:
        title = use_unit(f"{mode}: what would shrink it, at batch {found['shown']}, by the estimate", unit)
        tables.append(_make_table(title, ("change", "peak", "less", "what"), list_saving_rows(found)))
    return tables


def list_layer_rows(found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row each."""
    return [
        (one["layer"] or MISSING, WORDS[one["kind"]], format_bytes(one["size"]), str(one["count"]),
         _format(one["shape"])) for one in found["layers"]
    ]  # fmt: skip


def list_buffer_rows(found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row each."""
    return [
        (format_bytes(one["size"]), WORDS[one["kind"]], _format(one["shape"]), one["operation"])
        for one in found["buffers"]
    ]


def list_saving_rows(found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row each; n/a with its reason."""
    return [
        (one["name"], format_bytes(one["peak"]), format_bytes(one["saved"]),
         one["what"] + (f": {MISSING}: {one['reason']}" if one["reason"] else "")) for one in found["savings"]
    ]  # fmt: skip


def render_holders(found: Mapping[str, Any], unit: Sequence[str] = SAMPLES) -> str:
    """The same for a page."""
    if found.get("reason") or not found.get("layers"):
        return render_paragraph(f"{MISSING}: {found.get('reason', '')}")
    text = (
        f"At the peak of batch {found['shown']}, by a static estimate of {format_bytes(_find_peak(found))}; "
        f"{describe_error(found, '')}."
    )
    parts = [render_paragraph(use_unit(text, unit)), render_table(SHARES, list_layer_rows(found), kind="text")]
    parts.append(render_table(BUFFERS, list_buffer_rows(found), kind="text"))
    if found["savings"]:
        parts.append(render_paragraph("What would shrink it, as the difference of two static estimates:"))
        parts.append(render_table(("change", "peak", "less", "what"), list_saving_rows(found), kind="text"))
    return "".join(parts)


def _find_peak(found: Mapping[str, Any]) -> int | None:
    peak: int | None = next(one["peak"] for one in found["points"] if one["batch"] == found["shown"])
    return peak


def _make_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=Text(title), box=box.ASCII_DOUBLE_HEAD, title_justify="left")
    for name in header:
        table.add_column(name, justify="right" if name in ("bytes", "buffers", "peak", "less") else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _format(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) or "1"
