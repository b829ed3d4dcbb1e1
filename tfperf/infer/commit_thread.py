"""The writer in a thread of its own, so that who hands out work never waits for the disk, but for what does not fit."""

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfperf.arrays import AnyArray
from tfperf.errors import UserError
from tfperf.infer.dataset_names import find_odd_name
from tfperf.infer.dispatch_records import WindowEvent
from tfperf.infer.leases import RecordFailure
from tfperf.infer.output_file import OutputSpec
from tfperf.infer.writer import SYNC_SECONDS, Rows, RowWriter

WAITING = 256  # batches that may wait for the disk
MOST_UNPREPARED = 100  # records that cannot be prepared before the first one that can
Given = tuple[int, Sequence[int], Mapping[str, AnyArray], AnyArray, Sequence[RecordFailure]]


@dataclass
class CommitThread:
    """Takes what the dispatcher gives. open_writer: called with what the first rows are, since only they tell."""

    open_writer: Callable[[Sequence[OutputSpec], AnyArray], RowWriter]
    dtype: str
    known: Sequence[OutputSpec] | None = None  # of an earlier life
    writer: RowWriter | None = None
    early: list[Given] = field(default_factory=list)  # failures before the first rows, which wait for these
    _error: BaseException | None = None
    _prepared_cost: float = 0.0
    _unprepared: int = 0

    def __post_init__(self) -> None:
        self._inbox: queue.Queue[Given | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def note_window(self, event: WindowEvent) -> None:
        """What was prepared, before `give` is called with the failures in it."""
        self._prepared_cost += event.cost

    def give(self, *given: Any) -> None:
        """Rows of records, or failures. Raises: what the writer has raised; UserError where nothing can be prepared."""
        failures = given[4]
        if failures and self.known is None and not self._prepared_cost:
            self._unprepared += len(failures)
            if self._unprepared >= MOST_UNPREPARED:
                told = f"{self._unprepared} records raised: {failures[0].message}"
                raise UserError(f"preprocess: no record could be prepared: {told}")
        while True:
            self._raise()
            try:
                self._inbox.put(given, timeout=1.0)
                return
            except queue.Full:
                continue  # the disk is slow, or the writer has failed

    def close(self) -> None:
        """Have all that was given on the disk. Raises: what the writer has raised."""
        if self._thread.is_alive():
            self._inbox.put(None)
            self._thread.join()
        self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while True:
                try:
                    given = self._inbox.get(timeout=SYNC_SECONDS)
                except queue.Empty:
                    if self.writer is not None:
                        self.writer.commit()
                    continue
                if given is None:
                    break
                self._take(given)
            if self.writer is not None:
                self.writer.commit()
        except BaseException as error:
            self._error = error

    def _take(self, given: Given) -> None:
        _, _, values, ids, _ = given
        if self.writer is None:
            if not values and self.known is None:
                self.early.append(given)
                return
            specs = self.known or describe_outputs(values, self.dtype)
            self.writer = self.open_writer(specs, ids)
            for one in self.early:
                self._add(one)
            self.early = []
        self._add(given)

    def _add(self, given: Given) -> None:
        assert self.writer is not None
        window, numbers, values, ids, failures = given
        specs = self.writer.file.plan.outputs
        if failures:
            found = {one.name: np.full((len(numbers), *one.shape), get_filling(one.dtype), one.dtype) for one in specs}
        else:
            found, failures = convert_rows(specs, window, numbers, values)
        self.writer.add(Rows(window, tuple(numbers), found, ids, tuple(failures)))


def get_filling(dtype: str) -> float:
    """What a record that failed has in place of values: NaN, or 0 in whole numbers."""
    return float("nan") if np.dtype(dtype).kind == "f" else 0


def convert_rows(
    specs: Sequence[OutputSpec], window: int, numbers: Sequence[int], values: Mapping[str, AnyArray]
) -> tuple[dict[str, AnyArray], list[RecordFailure]]:
    """Rows as the file has them, and records of which a value is beyond its type: these have no values there.

    Raises: UserError for outputs that are not as the first ones were.
    """
    found: dict[str, AnyArray] = {}
    beyond: dict[int, str] = {}  # by place
    for spec in specs:
        shape, array = (len(numbers), *spec.shape), values.get(spec.name)
        if array is None or array.shape != shape:
            what = "nothing" if array is None else f"shape {array.shape}"
            why = "a row must have the same shape for every record"
            raise UserError(f"model: output {spec.name}: got {what} for {len(numbers)} records; must be {shape}: {why}")
        if not np.can_cast(array.dtype, spec.dtype, "same_kind"):
            raise UserError(f"model: output {spec.name}: got {array.dtype}, where the first rows were {spec.dtype}")
        with np.errstate(over="ignore"):
            found[spec.name] = array.astype(spec.dtype, copy=False)
        if array.dtype.itemsize > np.dtype(spec.dtype).itemsize and array.dtype.kind == "f":
            lost = np.isinf(found[spec.name]) & np.isfinite(array)
            for place in np.flatnonzero(lost.reshape(len(numbers), -1).any(axis=1)):
                most = float(np.abs(array[place][lost[place]]).max())
                beyond[int(place)] = f"output {spec.name}: {most:.4g} is beyond {spec.dtype}"
    for spec in specs if beyond else ():
        found[spec.name] = np.array(found[spec.name])
        found[spec.name][list(beyond)] = get_filling(spec.dtype)
    return found, [RecordFailure(window, numbers[place], "raised", told) for place, told in beyond.items()]


def describe_outputs(values: Mapping[str, AnyArray], dtype: str) -> list[OutputSpec]:
    """What the first rows (n, ...) are: numbers of dtype, or whole numbers as they are, and truth values as 0 and 1.

    Raises: UserError for outputs that are no numbers, and for names that the file cannot have.
    """
    found = []
    for name, array in values.items():
        if array.dtype.kind not in "fiub":
            raise UserError(f"model: output {name}: is of type {array.dtype}; must be numbers")
        if (odd := find_odd_name(name)) is not None:
            raise UserError(f"model: output {name!r}: {odd}; output.names gives others")
        kept = {"f": dtype, "b": "uint8"}.get(array.dtype.kind, array.dtype.name)
        found.append(OutputSpec(name, tuple(array.shape[1:]), kept))
    return found
