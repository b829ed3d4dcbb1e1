"""Arrays and texts in HDF5 files whose every byte has a checksum, and the reading of such files."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tfperf.arrays import AnyArray, BytesArray
from tfperf.errors import RunDirectoryError, UserError
from tfperf.results.file_limits import Budget, read_attribute
from tfperf.results.heaps import refuse_broken_heaps
from tfperf.results.reading import parse_json, refuse_special
from tfperf.results.state import NO_RUN, Identity

MOST: Mapping[str, int] = {  # of the sizes that arrays share
    "R": 100_000, "X": 1000, "N": 10_000, "D": 100, "C": 100, "H": 10**8, "V": 10**8
}  # fmt: skip
MOST_NAMES = 1000
TEXT_BYTES = 16 * 10**6  # of a dataset of texts, of which the summary is the longest
ARRAY_BYTES = 64 * 10**9
KINDS = {"float": "f", "integer": "iu", "number": "fiu"}


class CheckedFile:
    """An opened file whose arrays are held against their shape and its size before they are read.

    Sizes are named by letters; what a letter stands for is learned from the first array that has it. All methods raise
    ValueError for what is not as it must be, and whatever h5py raises for what is damaged.
    """

    def __init__(self, file: h5py.File) -> None:
        self.file = file
        self.sizes: dict[str, int] = {}
        self._budget = Budget(file)

    def read_array(self, path: str, kind: str, *dims: str | int, more: bool = False) -> AnyArray:
        """The array (dims) at a path in the file, of a kind of KINDS; more: it may have further axes."""
        found = self._find_dataset(path)
        shape = found.shape
        if found.dtype.kind not in KINDS[kind] or found.dtype.itemsize > 8:
            raise ValueError(f"{path}: got type {found.dtype}; must be {kind}")
        wanted = [self._resolve_size(d, n) for d, n in zip(dims, shape or (), strict=False)]
        if shape is None or len(shape) < len(dims) or (len(shape) > len(dims) and not more):
            raise ValueError(f"{path}: got shape {shape}; must have {len(dims)} axes")
        if list(shape[: len(dims)]) != wanted:
            raise ValueError(f"{path}: got shape {shape}; must be ({', '.join(map(str, wanted))})")
        self._budget.charge(found, ARRAY_BYTES)
        return np.asarray(found[()])

    def read_texts(self, path: str, size: str | int) -> tuple[str, ...]:
        """The texts that `write_texts` put at a path, as many as that size."""
        found = self._find_dataset(path)
        if found.dtype.kind != "S" or found.ndim != 1 or len(found) != self._resolve_size(size, len(found)):
            raise ValueError(f"{path}: got {found.dtype} of shape {found.shape}; must be {size} texts")
        self._budget.charge(found, TEXT_BYTES)
        return decode_texts(found[()])

    def read_names(self, path: str) -> tuple[str, ...]:
        """The attribute `names` of a group: distinct texts, not empty."""
        group = self._find_group(path)
        names = decode_texts(np.atleast_1d(read_attribute(group, "names", np.zeros(0, "S1"))))
        if len(names) > MOST_NAMES or len(set(names)) != len(names) or not all(names):
            raise ValueError(f"{path}: {len(names)} names; must be distinct, at most {MOST_NAMES}, none empty")
        return names

    def read_summary(self) -> dict[str, Any]:
        """The report that is kept at `summary`."""
        found = parse_json(self.read_texts("summary", 1)[0])
        if not isinstance(found, dict):
            raise ValueError("summary: must be a mapping")
        return found

    def read_text(self, path: str, name: str) -> str:
        """An attribute that is one text."""
        (found,) = decode_texts(read_attribute(self._find_group(path), name))
        return found

    def read_number(self, path: str, name: str) -> float:
        """An attribute that is one number."""
        return float(read_attribute(self._find_group(path), name))

    def list_members(self, path: str) -> set[str]:
        """The names of what is in a group."""
        group = self._find_group(path)
        if len(group) > MOST_NAMES:
            raise ValueError(f"{path}: {len(group)} entries; at most {MOST_NAMES} are allowed")
        return set(group)

    def _resolve_size(self, dim: str | int, found: int) -> int:
        """What a size must be, of which `found` was met."""
        if isinstance(dim, int):
            return dim
        if found > MOST[dim]:
            raise ValueError(f"{found} is beyond the limit of {MOST[dim]}")
        return self.sizes.setdefault(dim, found)

    def _find_dataset(self, path: str) -> h5py.Dataset:
        parent, _, name = path.rpartition("/")
        found = self._get_member(self._find_group(parent), name, path)
        if not isinstance(found, h5py.Dataset):
            raise ValueError(f"{path}: must be an array")
        return found

    def _find_group(self, path: str) -> h5py.Group:
        group = self.file
        for name in filter(None, path.split("/")):
            group = self._get_member(group, name, path)
            if not isinstance(group, h5py.Group):
                raise ValueError(f"{path}: must be a group")
        return group

    def _get_member(self, group: h5py.Group, name: str, path: str) -> Any:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise ValueError(f"{path}: missing, or a link to something else")
        return group[name]


@contextmanager
def open_checked(path: Path, kind: str, layout: int) -> Iterator[CheckedFile]:
    """A file whose attributes `kind` and `layout` are these.

    Raises: RunDirectoryError where there is none, where it is damaged, claims to hold more than it can, or is of
    another kind or layout.
    """
    if not os.path.lexists(path):
        raise RunDirectoryError(f"{path}: no such file; a finished run has one")
    try:
        refuse_special(path, links=False)
        with h5py.File(path, "r") as file:
            refuse_broken_heaps(file, path)
            found, its_layout = read_attribute(file, "kind"), read_attribute(file, "layout")
            found = decode_texts(found)[0] if isinstance(found, np.ndarray) else found
            if found != kind or its_layout != layout:
                given = f"kind {found!r:.100}, layout {its_layout!s:.100}"
                raise RunDirectoryError(f"{path}: got {given}; must be kind {kind!r}, layout {layout}")
            yield CheckedFile(file)
    except UserError:
        raise
    except Exception as error:  # HDF5 has no error class of its own: damage comes out as any
        raise RunDirectoryError(f"{path}: damaged, it cannot be read as the results of a fit ({error})") from error


def write_identity(file: h5py.File, identity: Identity | None) -> None:
    """Note whose results these are."""
    if identity is not None:
        file.attrs.update({"run": encode_texts(identity.run), "digest": encode_texts(identity.digest)})


def refuse_others(path: Path, file: CheckedFile, identity: Identity | None) -> None:
    """RunDirectoryError for results of another run than that; None: of any. Runs of tfperf 0.1.0 have no identity."""
    if identity is None or identity.run == NO_RUN:
        return
    found = {name: file.read_text("", name) if name in file.file.attrs else "" for name in ("run", "digest")}
    if Identity(**found) != identity:
        raise RunDirectoryError(f"{path}: holds the results of another run; begin again by --force")


def write_array(group: h5py.Group, name: str, array: AnyArray, unit: str | None = None) -> None:
    """An array as a dataset, large ones compressed."""
    # HDF5 cannot chunk a scalar or an empty array, and compresses a small one to more bytes than it has
    filters: dict[str, Any] = {"fletcher32": True} if array.size else {}
    if array.nbytes > 4096:
        filters |= {"compression": "gzip", "shuffle": True}
    dataset = group.create_dataset(name, data=array, **filters)
    if unit is not None:
        dataset.attrs["unit"] = unit


def write_texts(group: h5py.Group, name: str, texts: tuple[str, ...]) -> None:
    """Texts as a dataset."""
    group.create_dataset(name, data=encode_texts(*texts), **({"fletcher32": True} if texts else {}))


def encode_texts(*texts: str) -> BytesArray:
    """Texts as an array of fixed length: HDF5 keeps those of variable length in a heap without checksums.

    >>> decode_texts(encode_texts("u", "ubar"))
    ('u', 'ubar')
    """
    rows = [t.encode() for t in texts]
    length = max((len(t) for t in rows), default=1) or 1
    return np.array(rows, dtype=h5py.string_dtype("utf-8", length))


def decode_texts(array: BytesArray) -> tuple[str, ...]:
    """The texts that `encode_texts` made."""
    return tuple(t.decode() for t in array)
