"""Stages of a pipeline as rows: for each batch what a stage costs, how it runs, what AUTOTUNE made of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfperf.inputs.expected_rates import StageLoad, find_threads, list_thread_seconds
from tfperf.report.numbers import MISSING, format_bytes

PYTHON = "Python"  # a note
NOTABLE = 0.1  # of the time of all stages
NEAR = 1.2  # how much more than the whole a stage may deliver, and still be what the whole waits for
Limits = tuple[float | None, float | None]
HEADERS = (
    "stage", "kind", "CPU ms", "wait ms", "batches/s up to here", "calls", "buffer", "held", "read", "notes",
)  # fmt: skip


@dataclass(frozen=True)
class StageRow:
    """A stage; times, bytes and rates are of the batches that come out at the end."""

    position: int
    name: str
    kind: str
    inputs: tuple[int, ...]
    cpu: float | None  # s; None: how many of its elements make a batch is not known
    wait: float | None
    rate: float | None  # batches/s of the pipeline up to it
    rate_limits: Limits
    calls: int | str | None  # in the code: a number, "auto", None: one after the other
    chosen: float | None  # calls that TensorFlow took
    buffer: int | str | None
    chosen_buffer: float | None
    held_bytes: int | None  # in its buffers
    read_bytes: float | None  # from the disk
    size: int | None  # of a batch
    cardinality: float | None
    notes: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """CPU and waiting time; 0 where it is not known or within noise."""
        return max(0.0, self.cpu or 0.0) + max(0.0, self.wait or 0.0)

    @property
    def has_python(self) -> bool:
        """Whether it calls Python."""
        return PYTHON in self.notes

    @property
    def is_parallel(self) -> bool:
        """Whether calls of its function run side by side in the pool."""
        return self.calls not in (None, 1) or self.is_parallelized

    @property
    def is_parallelized(self) -> bool:
        """Whether TensorFlow made it parallel by itself."""
        return self.calls is None and self.chosen is not None

    @property
    def is_sequential(self) -> bool:
        """Whether it calls a function, one call after the other."""
        return self.kind in ("map", "interleave", "flat_map", "filter", "scan") and not self.is_parallel

    def make_load(self, threads: float) -> StageLoad:
        """As a prediction takes it."""
        calls = threads if self.is_parallel and not isinstance(self.calls, int) else self.calls
        most = float(calls) if self.is_parallel and not isinstance(calls, str | None) else None
        return StageLoad(
            max(0.0, self.cpu or 0.0), max(0.0, self.wait or 0.0), most, self.kind == "prefetch", self.inputs
        )


def get_free_cores(report: Mapping[str, Any]) -> float:
    """Those that were measured beside workers, or, where no number of these was, beside model and data."""
    return float((report if report["workers"] is None else report["workers"])["free_cores"])


def find_costliest(rows: Sequence[StageRow], among: Sequence[StageRow]) -> str | None:
    """The stage that takes the most CPU and waiting time among some, with it; None where that is no notable part."""
    total, most = sum(one.seconds for one in rows), max(among, key=lambda one: one.seconds, default=None)
    if most is None or most.seconds < NOTABLE * total or total == 0:
        return None
    return f"{most.name} ({1e3 * most.seconds:.3g} ms of CPU and waiting a batch)"


def list_fixed(rows: Sequence[StageRow]) -> list[StageRow]:
    """Stages that take time and whose number of calls no pool of threads changes."""
    total = sum(one.seconds for one in rows)
    calling = [one for one in rows if one.is_sequential or isinstance(one.calls, int)]
    return [one for one in calling if one.seconds >= NOTABLE * total > 0]


def list_fixed_rates(rows: Sequence[StageRow]) -> list[tuple[StageRow, float]]:
    """These stages, each with the batches/s that its calls allow, or the thread that runs it beside others."""
    loads = [one.make_load(1.0) for one in rows]
    threads, seconds = find_threads(loads), list_thread_seconds(loads)
    return [
        (one, one.calls / one.seconds if isinstance(one.calls, int) and one.calls > 1 else 1 / seconds[threads[place]])
        for place, one in ((one.position, one) for one in list_fixed(rows))
    ]


def list_binding(rows: Sequence[StageRow], rate: float) -> list[StageRow]:
    """Those of them that data of so many batches/s wait for."""
    return [one for one, most in list_fixed_rates(rows) if most <= NEAR * rate]


def list_stage_rows(source: Mapping[str, Any]) -> list[StageRow]:
    """Of what a record says of a tf.data.Dataset; none of other data."""
    if "pipeline" not in source:
        return []
    both = zip(source["pipeline"]["stages"], source["times"]["stages"], strict=True)
    return [_make_row(position, stage, one) for position, (stage, one) in enumerate(both)]


def _make_row(position: int, stage: Mapping[str, Any], one: Mapping[str, Any]) -> StageRow:
    each, tuning, rate = one["per_output"], one["tuning"] or {}, one["prefix"]["rate"]
    known = each is not None and each > 0
    return StageRow(
        position, stage["name"] or stage["kind"], stage["kind"], tuple(stage["inputs"]),
        each * one["cpu"]["value"] if known else None, each * one["wait"]["value"] if known else None,
        rate["value"] / each if known else None,
        (_divide(rate["low"], each), _divide(rate["high"], each)),
        stage["parallel"], tuning.get("parallelism") if stage["parallel"] != 1 else None, stage["buffer"],
        tuning.get("buffer_size"), tuning.get("buffered_bytes"), each * one["read_bytes"] if known else None,
        stage["size"], stage["cardinality"], tuple(_list_notes(stage)),
    )  # fmt: skip


def _divide(limit: float | None, each: float | None) -> float | None:
    return None if limit is None or not each or each < 0 else limit / each


def _list_notes(stage: Mapping[str, Any]) -> Iterator[str]:
    function = stage["function"] or {}
    if function.get("python") or stage["op"] == "GeneratorDataset":
        yield PYTHON
    if function.get("random") or stage["kind"] == "random":
        yield "random"
    if stage["parallel"] is not None and stage["keeps_order"] is False:
        yield "any order"


def list_stage_cells(rows: Sequence[StageRow]) -> list[tuple[str, ...]]:
    """Text under HEADERS."""
    return [
        (
            one.name, one.kind, _format_ms(one.cpu), _format_ms(one.wait), _format_rate(one), format_calls(one),
            _format_buffer(one), format_small(one.held_bytes), format_small(one.read_bytes), ", ".join(one.notes),
        )
        for one in rows
    ]  # fmt: skip


def format_small(size: float | None) -> str:
    """Bytes, in kB where that says more.

    >>> format_small(0), format_small(2500.0), format_small(3e7), format_small(None)
    ('0', '2.5 kB', '30.0 MB', 'n/a')
    """
    if size is not None and size <= 0:
        return "0"
    return f"{size / 1e3:.1f} kB" if size is not None and size < 1e5 else format_bytes(size)


def format_calls(row: StageRow) -> str:
    """Parallel calls as the code says, and what TensorFlow took.

    A stage that is written as sequential, and that TensorFlow runs in parallel, has only the latter.
    """
    took = "" if row.chosen is None else f"{row.chosen:.0f}"
    if row.calls == "auto":
        return f"AUTOTUNE: {took or MISSING}"
    if row.calls is not None:
        return str(row.calls)
    return f"1, run as {took}" if row.is_parallelized else "1"


def _format_ms(seconds: float | None) -> str:
    return MISSING if seconds is None else f"{1e3 * max(0.0, seconds):.3g}"


def _format_rate(row: StageRow) -> str:
    if row.rate is None:
        return MISSING
    low, high = row.rate_limits
    return f"{row.rate:.4g}" if low is None or high is None else f"{row.rate:.4g} [{max(0.0, low):.3g}, {high:.3g}]"


def _format_buffer(row: StageRow) -> str:
    if row.buffer == "auto":
        return f"AUTOTUNE: {MISSING if row.chosen_buffer is None else format(row.chosen_buffer, '.0f')}"
    return "" if row.buffer is None else str(row.buffer)
