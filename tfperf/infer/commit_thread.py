"""The writer in a thread of its own, so that who hands out work never waits for the disk, but for what does not fit."""

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfperf.arrays import AnyArray
from tfperf.errors import UserError
from tfperf.infer.leases import RecordFailure
from tfperf.infer.output_file import OutputSpec
from tfperf.infer.writer import SYNC_SECONDS, Rows, RowWriter

WAITING = 256  # batches that may wait for the disk
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

    def __post_init__(self) -> None:
        self._inbox: queue.Queue[Given | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def give(self, *given: Any) -> None:
        """Rows of records, or failures. Raises: what the writer has raised."""
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
        found = {}
        for spec in self.writer.file.plan.outputs:
            shape = (len(numbers), *spec.shape)
            if failures:
                found[spec.name] = np.full(shape, np.nan, spec.dtype)
                continue
            array = values.get(spec.name)
            if array is None or array.shape != shape:
                what = "nothing" if array is None else f"shape {array.shape}"
                raise UserError(f"model: output {spec.name}: got {what} for {len(numbers)} records; must be {shape}")
            found[spec.name] = array.astype(spec.dtype, copy=False)
        self.writer.add(Rows(window, tuple(numbers), found, ids, tuple(failures)))


def describe_outputs(values: Mapping[str, AnyArray], dtype: str) -> list[OutputSpec]:
    """What the first rows (n, ...) are. Raises: UserError for outputs that are no numbers."""
    found = []
    for name, array in values.items():
        if array.dtype.kind not in "fiub":
            raise UserError(f"model: output {name}: is of type {array.dtype}; must be numbers")
        found.append(OutputSpec(name, tuple(array.shape[1:]), dtype))
    return found
