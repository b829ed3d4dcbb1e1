"""A process that reads records and makes of them what the model takes, window by window, as it is asked."""

import os
import re
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np

from tfperf.arrays import AnyArray
from tfperf.infer.leases import RecordFailure
from tfperf.infer.prepared import (
    Column,
    PreparedWindow,
    describe_kind,
    join_column,
    join_columns,
    measure_lengths,
)

RAISED = re.compile(r"\s+\w+: \S")  # as the line with the error begins, below its traceback
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
            made = _arrange(prepare(columns), len(ids))
            return PreparedWindow(window, made, measure_lengths(made, len(ids)), ids)
        except Exception:
            pass  # which record it is comes out below
    return _prepare_singly(window, columns, ids, prepare, skipped, begin)


def _prepare_singly(
    window: int, columns: Columns, ids: AnyArray, prepare: Prepare, skipped: Mapping[int, RecordFailure],
    begin: Callable[[int], None] | None,
) -> PreparedWindow:  # fmt: skip
    rows: dict[int, dict[str, Column]] = {}
    failures = dict(skipped)
    for number in range(len(ids)):
        if number in skipped:
            continue
        if begin is not None:
            begin(number)
        try:
            one = prepare({name: values[number : number + 1] for name, values in columns.items()})
            rows[number] = _arrange(one, 1)
        except Exception as error:
            failures[number] = RecordFailure(window, number, "raised", describe_error(error))
    for number, odd in _find_odd_rows(rows).items():
        del rows[number]
        failures[number] = RecordFailure(window, number, "raised", odd)
    made = _join_rows(rows, len(ids))
    listed = tuple(failures[number] for number in sorted(failures))
    return PreparedWindow(window, made, measure_lengths(made, len(ids)), ids, listed)


def _arrange(made: Mapping[str, Sequence[Any]], count: int) -> dict[str, Column]:
    if not isinstance(made, Mapping) or not made:
        what = "an empty dict" if isinstance(made, Mapping) else type(made).__name__
        raise ValueError(f"got {what}; must be a dict of the model's inputs")
    return {name: _join(values, count) for name, values in made.items()}


def _join(values: Sequence[Any], count: int) -> Column:
    if len(values) != count:
        raise ValueError(f"{len(values)} values of {count} records")
    if isinstance(values, np.ndarray) and values.dtype != object:
        return np.asarray(values)
    return join_column(values)


def _find_odd_rows(rows: Mapping[int, Mapping[str, Column]]) -> dict[int, str]:
    """Of records whose values are of another kind than most, what is odd: these cannot be in one batch with others."""
    names = Counter(tuple(one) for one in rows.values())
    if not names:
        return {}
    usual = names.most_common(1)[0][0]
    kinds = {
        name: Counter(k for one in rows.values() if name in one and (k := describe_kind(one[name]))) for name in usual
    }
    found: dict[int, str] = {}
    for number, one in rows.items():
        if set(one) != set(usual):
            found[number] = f"has {', '.join(one) or 'nothing'}, where other records have {', '.join(usual)}"
            continue
        for name in usual:
            most = kinds[name].most_common(1)
            kind = describe_kind(one[name])
            if kind and kind != most[0][0]:
                found[number] = f"{name}: {_describe_odd(kind)}, where other records have {_describe_odd(most[0][0])}"
    return found


def _describe_odd(kind: tuple[Any, ...]) -> str:
    is_dense, shape, values = kind
    words = {"number": "numbers", "U": "texts", "S": "bytes that are no UTF-8"}[values]
    return f"{words} of shape {tuple(shape) if is_dense else ('n', *shape)}".replace("'n'", "n")


def _join_rows(rows: Mapping[int, Mapping[str, Column]], count: int) -> dict[str, Column]:
    """Columns of rows; in the place of those that failed a copy of one that did not."""
    good = next(iter(rows.values()), None)
    if good is None:
        return {}
    return {name: join_columns([rows.get(number, good)[name] for number in range(count)]) for name in good}


def describe_error(error: BaseException) -> str:
    """Its type and what it says, in a line; of what TensorFlow tells of code that it traces only the error itself."""
    lines = str(error).splitlines()
    if lines and lines[0].startswith("in user code:"):
        last = max((place for place, line in enumerate(lines) if RAISED.match(line)), default=0)
        return " ".join(" ".join(lines[last:]).split())[:MESSAGE_LENGTH]
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:MESSAGE_LENGTH]
