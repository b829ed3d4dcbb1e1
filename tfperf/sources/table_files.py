"""Files of tables: the names of their columns, and some of the columns."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tfperf.errors import UserError
from tfperf.results.reading import refuse_special
from tfperf.sources.columns import ArrowColumn, import_pyarrow

BLOCK, LARGE_BLOCK = 1 << 20, 8 << 20  # bytes that are parsed at once; a row of a .csv file has to fit
ArrowTable = Any  # pyarrow's Table


class CsvTable:
    """A .csv file; names: of its columns, in its order."""

    allowed = "must be CSV in UTF-8 with a header, commas between the values, and as many values in each row"
    row_labels: frozenset[str] = frozenset()

    def __init__(self, path: Path) -> None:
        """Raises: UserError for what is no such file."""
        self._path, self._ragged = path, list[Any]()
        with _refuse_damage(path, self.allowed):
            # where a value has several lines pyarrow may read others, unless it is told, which takes twice as long
            self._has_quotes = _has_quotes(path)
            self.names: list[str] = self._parse("open_csv", None).schema.names

    def read(self, names: list[str]) -> ArrowTable:
        """Some of the columns. Raises: UserError for damage in any column, texts that are not UTF-8 in these."""
        with _refuse_damage(self._path, self.allowed):
            table = self._parse("read_csv", names)
        for name in names:
            _refuse_bytes(table.column(name), f"{self._path}: column {name}")
        return table

    def _parse(self, function: str, names: list[str] | None) -> Any:
        with suppress(ValueError):
            return self._call(function, names, BLOCK, True)
        return self._call(function, names, LARGE_BLOCK, False)  # one thread knows the number of a faulty row

    def _call(self, function: str, names: list[str] | None, block: int, threads: bool) -> Any:
        csv = import_pyarrow("pyarrow.csv")
        self._ragged.clear()
        try:
            return getattr(csv, function)(
                self._path,
                read_options=csv.ReadOptions(use_threads=threads, block_size=block),
                parse_options=csv.ParseOptions(
                    newlines_in_values=self._has_quotes, invalid_row_handler=self._note_ragged
                ),
                convert_options=csv.ConvertOptions(include_columns=names),
            )
        except ValueError:
            if self._ragged:
                raise ValueError(_describe_ragged(self._ragged[0])) from None
            raise

    def _note_ragged(self, row: Any) -> str:
        self._ragged.append(row)
        return "error"


class ParquetTable:
    """A .parquet file; row_labels: columns that pandas wrote as an index, which nobody means by all columns."""

    allowed = "must be a whole Parquet file"

    def __init__(self, path: Path) -> None:
        """Raises: UserError for what is no such file."""
        self._path = path
        with _refuse_damage(path, self.allowed):
            self._file = import_pyarrow("pyarrow.parquet").ParquetFile(path, page_checksum_verification=True)
        schema = self._file.schema_arrow
        self.names: list[str] = schema.names
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        self.row_labels = frozenset(name for name in index if isinstance(name, str))

    def read(self, names: list[str]) -> ArrowTable:
        """Some of the columns. Raises: UserError for damage in these."""
        with _refuse_damage(self._path, self.allowed):
            return self._file.read(columns=names)


FORMATS: dict[str, type[CsvTable | ParquetTable]] = {".csv": CsvTable, ".parquet": ParquetTable}


def open_table(path: Path) -> CsvTable | ParquetTable:
    """The table of a file. Raises: UserError for what is none, and where pyarrow is missing."""
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        raise UserError(f"{path}: is no table; must end in {' or '.join(FORMATS)}")
    import_pyarrow()
    with _refuse_damage(path, kind.allowed):
        refuse_special(path)
    return kind(path)


@contextmanager
def _refuse_damage(path: Path, allowed: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, import_pyarrow().ArrowException) as error:
        raise UserError(f"{path}: cannot be read: {' '.join(str(error).split())[:300]}; {allowed}") from None


def _has_quotes(path: Path) -> bool:
    with path.open("rb") as file:
        return any(b'"' in block for block in iter(lambda: file.read(BLOCK), b""))


def _describe_ragged(row: Any) -> str:
    where = "a row" if row.number is None else f"row {row.number - 1}"  # pyarrow counts the header
    return f"{where} has {row.actual_columns} values, the header {row.expected_columns}: {row.text[:80]!r}"


def _refuse_bytes(values: ArrowColumn, where: str) -> None:
    """pyarrow takes a column of a .csv file for bytes where some of it is not UTF-8."""
    if import_pyarrow("pyarrow.types").is_binary(values.type):
        for row, value in enumerate(values, 1):
            try:
                (value.as_py() or b"").decode()
            except UnicodeDecodeError:
                raise UserError(f"{where}: row {row} has {value.as_py()[:50]!r}; must be UTF-8") from None
