"""A process that reads records and makes of them what the model takes, window by window, as it is asked."""

import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np

from tfperf.arrays import AnyArray
from tfperf.infer.leases import RecordFailure
from tfperf.infer.prepared import Column, PreparedWindow, join_column, measure_lengths

MESSAGE_LENGTH = 500  # characters of what a record raised, that are kept

Columns = Mapping[str, Sequence[Any]]
Prepare = Callable[[Columns], Mapping[str, Sequence[Any]]]


class RecordReader(Protocol):
    """Records by their numbers."""

    @property
    def records(self) -> int:
        """How many there are."""

    def read(self, first: int, last: int) -> tuple[Columns, AnyArray]:
        """Columns of the records from `first` to before `last`, and their ids."""


@dataclass(frozen=True)
class PreparerSpec:
    """What the process opens, both by functions that another process can import. window: records of one."""

    open_reader: Callable[[], RecordReader]
    build_prepare: Callable[[], Prepare]
    window: int


def run_preparer(connection: Connection, spec: PreparerSpec) -> None:
    """Answer requests until the pipe ends.

    A request is (window, is_single): after ("begin", window, number) for each record where single, comes ("window",
    PreparedWindow); ("failed", text) where the source itself fails.
    """
    try:
        reader, prepare = spec.open_reader(), spec.build_prepare()
        connection.send(("ready", reader.records))
        while True:
            window, is_single, skipped = connection.recv()
            begin = window * spec.window
            columns, ids = reader.read(begin, min(reader.records, begin + spec.window))
            begin_record = partial(_send_begin, connection, window) if is_single else None
            connection.send(("window", prepare_window(window, columns, ids, prepare, skipped, begin_record)))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        os._exit(0)  # the parent is gone, or ends
    except BaseException as error:
        connection.send(("failed", describe_error(error), traceback.format_exc()))


def _send_begin(connection: Connection, window: int, number: int) -> None:
    connection.send(("begin", window, number))


def prepare_window(
    window: int, columns: Columns, ids: AnyArray, prepare: Prepare, skipped: Mapping[int, RecordFailure] | None = None,
    begin: Callable[[int], None] | None = None,
) -> PreparedWindow:  # fmt: skip
    """All records at once, or, where that raises, one by one: those that raise are marked.

    skipped: records that are known to fail; begin: called before each record, which are prepared one by one then.
    """
    skipped = skipped or {}
    if not skipped and begin is None:
        try:
            made = {name: _join(values, len(ids)) for name, values in prepare(columns).items()}
            return PreparedWindow(window, made, measure_lengths(made, len(ids)), ids)
        except Exception:
            pass  # which record it is comes out below
    rows: list[Mapping[str, Any] | None] = []
    failures: list[RecordFailure] = []
    for number in range(len(ids)):
        if number in skipped:
            failures.append(skipped[number])
            rows.append(None)
            continue
        if begin is not None:
            begin(number)
        try:
            one = prepare({name: values[number : number + 1] for name, values in columns.items()})
            rows.append({name: values[0] for name, values in one.items()})
        except Exception as error:
            failures.append(RecordFailure(window, number, "raised", describe_error(error)))
            rows.append(None)
    made = _join_rows(rows)
    return PreparedWindow(window, made, measure_lengths(made, len(ids)), ids, tuple(failures))


def _join(values: Sequence[Any], count: int) -> Column:
    if len(values) != count:
        raise ValueError(f"{len(values)} values of {count} records")
    return np.asarray(values) if isinstance(values, np.ndarray) and values.dtype != object else join_column(values)


def _join_rows(rows: Sequence[Mapping[str, Any] | None]) -> dict[str, Column]:
    """Columns of rows; in the place of those that failed a copy of one that did not."""
    good = next((one for one in rows if one is not None), None)
    if good is None:
        return {}
    return {name: join_column([(one or good)[name] for one in rows]) for name in good}


def describe_error(error: BaseException) -> str:
    """Its type and what it says, in a line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:MESSAGE_LENGTH]
