"""The records that a card's source names."""

from collections.abc import Sequence
from pathlib import Path

from tfperf.errors import UserError
from tfperf.sources.records.hdf5 import Hdf5Reader, list_datasets
from tfperf.sources.records.parquet import ParquetReader
from tfperf.sources.records.readers import LINE, ROW, FileRecords, LineReader, NpyReader

KEY = "source"


def open_records(
    form: str, files: Sequence[Path], columns: Sequence[str] = (), id_column: str | None = None
) -> FileRecords:
    """form: hdf5, parquet, lines or npy. Raises: UserError for files that are not, and for columns they do not have."""
    if form in ("lines", "npy"):
        reader = LineReader(files) if form == "lines" else NpyReader(files)
        found = FileRecords(reader, (LINE if form == "lines" else ROW,))
    else:
        kind = ParquetReader if form == "parquet" else Hdf5Reader
        names = tuple(columns) or _list_all(form, files, id_column)
        wanted = [*names, *([id_column] if id_column is not None and id_column not in names else [])]
        found = FileRecords(kind(files, wanted), names, id_column)
    if not found.records:
        raise UserError(f"{KEY}.{form}: no records in {', '.join(map(str, files[:5]))}")
    return found


def _list_all(form: str, files: Sequence[Path], id_column: str | None) -> tuple[str, ...]:
    """All columns of the first file, but for the id."""
    names = ParquetReader(files[:1], ()).list_columns() if form == "parquet" else list_datasets(files[0])
    return tuple(name for name in names if name != id_column)
