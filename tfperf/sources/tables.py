"""Samples of the columns of a table: a .csv or .parquet file."""

from collections.abc import Sequence
from pathlib import Path

from tfperf.arrays import AnyArray
from tfperf.errors import UserError
from tfperf.sources.columns import TableColumn, convert_column, join_columns, refuse_texts
from tfperf.sources.samples import Nest, Samples
from tfperf.sources.table_files import CsvTable, ParquetTable, open_table

AS_DICT = "`data.columns: dict` has each column by itself"
LEFT_OUT = f"`data.inputs: [...]` can leave it out, {AS_DICT}"
CLASSES = "write classes as numbers 0, 1, 2, ..."


def read_table(
    path: Path, inputs: Sequence[str], targets: Sequence[str], weights: str | None, as_dict: bool
) -> Samples:
    """Samples of the N rows of a table; columns that are not asked for are not read.

    inputs: none for all columns but targets, weights and an index that pandas wrote to a .parquet file.
    as_dict: {name: (N) or (N, L)}, texts among them. Otherwise one float array (N, columns), or of a single column
    of lists its own array (N, L). One target is an array (N) or (N, L) of its own type, several are a dict with
    as_dict, else a float array (N, targets). Weights: (N).
    In a .csv file an empty field, `nan` and `NA` are missing values among numbers, and texts among texts.
    Raises: UserError for files that cannot be read, and for columns that are not there, there twice, or no such arrays.
    """
    if weights is not None and not targets:
        raise UserError(f"data.weights: got {weights} without targets; must be left out where data.targets is empty")
    table = open_table(path)
    inputs = inputs or _list_inputs(path, table, {*targets, weights})
    wanted = list(dict.fromkeys([*inputs, *targets, *([] if weights is None else [weights])]))
    _refuse_names(path, table.names, wanted)
    found = table.read(wanted)
    if not found.num_rows:
        raise UserError(f"{path}: has no rows; must have at least one")
    columns = {name: TableColumn(path, name, found.column(name)) for name in wanted}
    parts = [_make_inputs([columns[name] for name in inputs], as_dict)]
    if targets:
        parts.append(_make_targets([columns[name] for name in targets], as_dict))
    return Samples((*parts, *([] if weights is None else [_make_weights(columns[weights])])))


def _list_inputs(path: Path, table: CsvTable | ParquetTable, others: set[str | None]) -> list[str]:
    names = [name for name in table.names if name not in others | table.row_labels]
    if "" in names:
        number = table.names.index("") + 1
        raise UserError(
            f"{path}: column {number} has no name, as where pandas wrote an index; must have one, "
            "or `data.inputs` must name the columns that the model takes"
        )
    if not names:
        raise UserError(f"{path}: has no columns but the targets and weights; must have one for the model to take")
    return names


def _refuse_names(path: Path, there: Sequence[str], wanted: Sequence[str]) -> None:
    if missing := [name for name in wanted if name not in there]:
        raise UserError(f"{path}: has no column {', '.join(missing)}; it has: {', '.join(there) or 'none'}")
    if twice := [name for name in wanted if there.count(name) > 1]:
        raise UserError(f"{path}: has several columns {', '.join(twice)}; each must have a name of its own")


def _make_inputs(columns: Sequence[TableColumn], as_dict: bool) -> Nest:
    if as_dict:
        return {column.name: convert_column(column) for column in columns}
    if len(columns) == 1 and columns[0].has_lists:
        return convert_column(columns[0])
    return join_columns(columns, LEFT_OUT)


def _make_targets(columns: Sequence[TableColumn], as_dict: bool) -> Nest:
    for column in columns:
        refuse_texts(column, CLASSES)
    if len(columns) == 1:
        return convert_column(columns[0])
    return {column.name: convert_column(column) for column in columns} if as_dict else join_columns(columns, AS_DICT)


def _make_weights(column: TableColumn) -> AnyArray:
    refuse_texts(column, "each weighs its sample")
    if column.has_lists:
        raise UserError(f"{column.where}: has lists; must be one number a row, which weighs its sample")
    return convert_column(column)
