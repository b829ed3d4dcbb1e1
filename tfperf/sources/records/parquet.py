"""Records of Parquet files: their rows, a group of rows at a time."""

import copy
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from tfperf.errors import UserError
from tfperf.sources.records.files import Parts

KEPT_GROUPS = 2  # of rows, that stay in memory


class ParquetReader:
    """Rows of Parquet files; a part is a group of rows."""

    def __init__(self, files: Sequence[Path], columns: Sequence[str]) -> None:
        try:
            import pyarrow.parquet as parquet
        except ImportError:
            raise UserError("source.parquet: needs pyarrow: pip install 'tfperf[predict]'") from None
        self._files, self._places = list(files), list[tuple[int, int]]()  # file, group
        self._metadata, self._names, counts = list[Any](), list[list[str]](), []
        for number, path in enumerate(files):
            try:
                with parquet.ParquetFile(path) as file:  # closed again: they may be more than a process may open
                    metadata, names = file.metadata, list(file.schema_arrow.names)
            except Exception as error:
                said = " ".join(str(error).split())[:200]
                raise UserError(f"source.parquet: {path}: cannot be read: {said}") from None
            for name in columns:
                if name not in names:
                    raise UserError(f"source.columns: {path} has no column {name}; it has: {', '.join(names[:20])}")
            self._places += [(number, group) for group in range(metadata.num_row_groups)]
            counts += [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
            self._metadata.append(metadata)
            self._names.append(names)
        self.parts = Parts(counts)
        self._choose(columns)

    def _choose(self, columns: Sequence[str]) -> None:
        self._columns = list(columns)
        self._read_group = lru_cache(KEPT_GROUPS)(self._read_group_anew)

    def select(self, columns: Sequence[str]) -> "ParquetReader":
        """A reader of some of its columns."""
        found = copy.copy(self)
        found._choose(columns)
        return found

    def name_part(self, part: int) -> str:
        """The file that has it."""
        return str(self._files[self._places[part][0]])

    def list_columns(self) -> list[str]:
        """Of the first file."""
        return self._names[0]

    def _read_group_anew(self, part: int) -> Any:
        import pyarrow.parquet as parquet

        number, group = self._places[part]
        with parquet.ParquetFile(self._files[number], metadata=self._metadata[number]) as file:
            return file.read_row_group(group, columns=self._columns)

    def read_part(self, part: int, first: int, last: int) -> Mapping[str, Any]:
        """Rows `first` to before `last` of a group."""
        table = self._read_group(part).slice(first, last - first)
        return {name: _convert_arrow(table.column(name)) for name in self._columns}


def _convert_arrow(column: Any) -> Any:
    import pyarrow

    kind = column.type
    is_number = pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_boolean(kind)
    return column.to_numpy() if is_number and column.null_count == 0 else column.to_pylist()
