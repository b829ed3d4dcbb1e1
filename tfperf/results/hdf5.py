"""Arrays and texts in HDF5 files whose every byte has a checksum, and the reading of such files."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from tfperf.errors import RunDirectoryError, UserError
from tfperf.results.bounds import Budget, attribute
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


class Stored:
    """An opened file whose arrays are held against their shape and its size before they are read.

    Sizes are named by letters; what a letter stands for is learned from the first array that has it. All methods raise
    ValueError for what is not as it must be, and whatever h5py raises for what is damaged.
    """

    def __init__(self, file: h5py.File) -> None:
        self.file = file
        self.sizes: dict[str, int] = {}
        self._budget = Budget(file)

    def array(self, place: str, kind: str, *dims: str | int, more: bool = False) -> NDArray[Any]:
        """The array (dims) at a path in the file, of a kind of KINDS; more: it may have further axes."""
        found = self._own(place)
        shape = found.shape
        if found.dtype.kind not in KINDS[kind] or found.dtype.itemsize > 8:
            raise ValueError(f"{place}: got type {found.dtype}; must be {kind}")
        wanted = [self._size(d, n) for d, n in zip(dims, shape or (), strict=False)]
        if shape is None or len(shape) < len(dims) or (len(shape) > len(dims) and not more):
            raise ValueError(f"{place}: got shape {shape}; must have {len(dims)} axes")
        if list(shape[: len(dims)]) != wanted:
            raise ValueError(f"{place}: got shape {shape}; must be ({', '.join(map(str, wanted))})")
        self._budget.take(found, ARRAY_BYTES)
        return np.asarray(found[()])

    def texts(self, place: str, size: str | int) -> tuple[str, ...]:
        """The texts that `put_texts` put at a path, as many as that size."""
        found = self._own(place)
        if found.dtype.kind != "S" or found.ndim != 1 or len(found) != self._size(size, len(found)):
            raise ValueError(f"{place}: got {found.dtype} of shape {found.shape}; must be {size} texts")
        self._budget.take(found, TEXT_BYTES)
        return decoded(found[()])

    def names(self, place: str) -> tuple[str, ...]:
        """The attribute `names` of a group: distinct texts, not empty."""
        group = self._group(place)
        names = decoded(np.atleast_1d(attribute(group, "names", np.zeros(0, "S1"))))
        if len(names) > MOST_NAMES or len(set(names)) != len(names) or not all(names):
            raise ValueError(f"{place}: {len(names)} names; must be distinct, at most {MOST_NAMES}, none empty")
        return names

    def summary(self) -> dict[str, Any]:
        """The report that is kept at `summary`."""
        found = parse_json(self.texts("summary", 1)[0])
        if not isinstance(found, dict):
            raise ValueError("summary: must be a mapping")
        return found

    def text(self, place: str, name: str) -> str:
        """An attribute that is one text."""
        (found,) = decoded(attribute(self._group(place), name))
        return found

    def number(self, place: str, name: str) -> float:
        """An attribute that is one number."""
        return float(attribute(self._group(place), name))

    def members(self, place: str) -> set[str]:
        """The names of what is in a group."""
        group = self._group(place)
        if len(group) > MOST_NAMES:
            raise ValueError(f"{place}: {len(group)} entries; at most {MOST_NAMES} are allowed")
        return set(group)

    def _size(self, dim: str | int, found: int) -> int:
        """What a size must be, of which `found` was met."""
        if isinstance(dim, int):
            return dim
        if found > MOST[dim]:
            raise ValueError(f"{found} is beyond the limit of {MOST[dim]}")
        return self.sizes.setdefault(dim, found)

    def _own(self, place: str) -> h5py.Dataset:
        parent, _, name = place.rpartition("/")
        found = self._member(self._group(parent), name, place)
        if not isinstance(found, h5py.Dataset):
            raise ValueError(f"{place}: must be an array")
        return found

    def _group(self, place: str) -> h5py.Group:
        group = self.file
        for name in filter(None, place.split("/")):
            group = self._member(group, name, place)
            if not isinstance(group, h5py.Group):
                raise ValueError(f"{place}: must be a group")
        return group

    def _member(self, group: h5py.Group, name: str, place: str) -> Any:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise ValueError(f"{place}: missing, or a link to something else")
        return group[name]


@contextmanager
def opened(path: Path, kind: str, layout: int) -> Iterator[Stored]:
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
            found, its_layout = attribute(file, "kind"), attribute(file, "layout")
            found = decoded(found)[0] if isinstance(found, np.ndarray) else found
            if found != kind or its_layout != layout:
                given = f"kind {found!r:.100}, layout {its_layout!r:.100}"
                raise RunDirectoryError(f"{path}: got {given}; must be kind {kind!r}, layout {layout}")
            yield Stored(file)
    except UserError:
        raise
    except Exception as error:  # HDF5 has no error class of its own: damage comes out as any
        raise RunDirectoryError(f"{path}: damaged, it cannot be read as the results of a fit ({error})") from error


def put_identity(file: h5py.File, identity: Identity | None) -> None:
    """Note whose results these are."""
    if identity is not None:
        file.attrs.update({"run": encoded(identity.run), "digest": encoded(identity.digest)})


def refuse_others(path: Path, file: Stored, identity: Identity | None) -> None:
    """RunDirectoryError for results of another run than that; None: of any. Runs of tfperf 0.1.0 have no identity."""
    if identity is None or identity.run == NO_RUN:
        return
    found = {name: file.text("", name) if name in file.file.attrs else "" for name in ("run", "digest")}
    if Identity(**found) != identity:
        raise RunDirectoryError(f"{path}: holds the results of another run; begin again by --force")


def put_array(group: h5py.Group, name: str, array: NDArray[Any], unit: str | None = None) -> None:
    """An array as a dataset, large ones compressed."""
    # HDF5 cannot chunk a scalar or an empty array, and compresses a small one to more bytes than it has
    filters: dict[str, Any] = {"fletcher32": True} if array.size else {}
    if array.nbytes > 4096:
        filters |= {"compression": "gzip", "shuffle": True}
    dataset = group.create_dataset(name, data=array, **filters)
    if unit is not None:
        dataset.attrs["unit"] = unit


def put_texts(group: h5py.Group, name: str, texts: tuple[str, ...]) -> None:
    """Texts as a dataset."""
    group.create_dataset(name, data=encoded(*texts), **({"fletcher32": True} if texts else {}))


def encoded(*texts: str) -> NDArray[np.bytes_]:
    """Texts as an array of fixed length: HDF5 keeps those of variable length in a heap without checksums."""
    rows = [t.encode() for t in texts]
    length = max((len(t) for t in rows), default=1) or 1
    return np.array(rows, dtype=h5py.string_dtype("utf-8", length))


def decoded(array: NDArray[np.bytes_]) -> tuple[str, ...]:
    """The texts that `encoded` made."""
    return tuple(t.decode() for t in array)
