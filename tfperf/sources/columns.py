"""Columns of tables as arrays. pyarrow reads the tables; it comes with the extra `tables`."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfperf.arrays import AnyArray, FloatArray
from tfperf.errors import UserError

ArrowColumn = Any  # (N): pyarrow's ChunkedArray; its classes have no types
KINDS = "numbers, booleans, texts, or lists with as many numbers in each row"


def import_pyarrow(module: str = "pyarrow") -> Any:
    """pyarrow, or one of its modules. Raises: UserError with the command that installs it where it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(f'{module} cannot be imported ({error}): pip install ".[tables]"') from None


@dataclass(frozen=True)
class TableColumn:
    """A column of a file: values (N), and what messages call it. Rows are counted from 1, without the header."""

    path: Path
    name: str
    values: ArrowColumn

    @property
    def where(self) -> str:
        """File and column."""
        return f"{self.path}: column {self.name}"

    @property
    def has_lists(self) -> bool:
        """Whether each row has several numbers."""
        types, kind = import_pyarrow("pyarrow.types"), self.values.type
        return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def convert_column(column: TableColumn) -> AnyArray:
    """A column as its own kind of array: numbers and booleans (N), texts (N), lists (N, L); decimals as float64.

    Raises: UserError for missing values, lists of several lengths, and all other types.
    """
    values = _decode_categories(column.values)
    _refuse_nulls(values, column.where)
    if _is_numeric(values.type):
        return _convert_numbers(values)
    if _is_text(values.type):
        return np.array(values.to_numpy(), np.str_)
    if column.has_lists and _is_numeric(values.type.value_type):
        return _convert_lists(values, column.where)
    raise UserError(f"{column.where}: has type {values.type}; must be {KINDS}")


def join_columns(columns: Sequence[TableColumn], advice: str) -> FloatArray:
    """Columns side by side (N, columns): float32 where it holds all that their types can, else float64.

    advice: what to do about texts and lists. Raises: UserError for these, and as `convert_column`.
    """
    arrays: list[AnyArray] = []
    for column in columns:
        refuse_texts(column, advice)
        if column.has_lists:
            raise UserError(f"{column.where}: has lists; must be numbers to stand in one array with others; {advice}")
        arrays.append(convert_column(column))
    found: FloatArray = np.stack(arrays, axis=1, dtype=np.result_type(np.float32, *arrays))
    return found


def refuse_texts(column: TableColumn, advice: str) -> None:
    """Raises: UserError for a column of texts; it shows the first that is no number, which may be a slip."""
    values = _decode_categories(column.values)
    if _is_text(values.type):
        _refuse_nulls(values, column.where)
        texts = ((row, value.as_py()) for row, value in enumerate(values, 1))
        row, text = next((one for one in texts if not _is_number(one[1])), (1, values[0].as_py()))
        raise UserError(f"{column.where}: has texts, {text[:50]!r} in row {row}; must be numbers; {advice}")


def _decode_categories(values: ArrowColumn) -> ArrowColumn:
    kind = values.type
    return values.cast(kind.value_type) if import_pyarrow("pyarrow.types").is_dictionary(kind) else values


def _is_numeric(kind: Any) -> bool:
    types = import_pyarrow("pyarrow.types")
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def _is_text(kind: Any) -> bool:
    types = import_pyarrow("pyarrow.types")
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _refuse_nulls(values: ArrowColumn, where: str) -> None:
    if values.null_count:
        raise UserError(f"{where}: row {_find_null(values) + 1} has no value; must have one in each row")


def _find_null(values: ArrowColumn) -> int:
    return int(np.argmax(values.is_null().to_numpy()))


def _convert_numbers(values: ArrowColumn) -> AnyArray:
    is_decimal = import_pyarrow("pyarrow.types").is_decimal(values.type)
    return np.asarray((values.cast("float64") if is_decimal else values).to_numpy())


def _convert_lists(values: ArrowColumn, where: str) -> AnyArray:
    lengths = import_pyarrow("pyarrow.compute").list_value_length(values).to_numpy()
    length, other = int(lengths[0]), int(np.argmax(lengths != lengths[0]))
    if other or not length:
        raise UserError(
            f"{where}: row {other + 1} has {lengths[other]} numbers, row 1 has {length}; must be as many in each row"
        )
    flat = import_pyarrow().chunked_array([chunk.flatten() for chunk in values.chunks], type=values.type.value_type)
    if flat.null_count:
        raise UserError(f"{where}: row {_find_null(flat) // length + 1} has a list with a missing value")
    return _convert_numbers(flat).reshape(len(values), length)
