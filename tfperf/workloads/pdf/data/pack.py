"""Data packs: an HDF5 file with everything a fit problem needs, and how it is read.

Layout, version 1 (a file without the attribute `layout` counts as version 1). N points, X grid nodes, F active
flavours, C luminosity channels, K systematic errors; floats of any width, read as float64.

    /                       attributes: layout (int), flavours (14 names), Q0 [GeV], provenance; others are free
    x                       (X) grid nodes, increasing, in (0, 1]
    <set>/                  attributes: operation (one of OPERATIONS), experiment, process, label; others are free
    <set>/fk                (N, X, F) deep-inelastic or (N, C, X, X) hadronic table, for operation NULL
    <set>/fk_num, fk_den    RATIO: num / den; a denominator of one row serves all points
    <set>/fk_a, fk_b ...    ASY: (a - b) / (a + b); ADD: a + b; SMN: (a + b) / (c + d);
                            COM: (a + ... + j) / (k + ... + t)
    <set>/flav              (F) indices into `flavours` of the last table axis (deep-inelastic tables)
    <set>/channels          (C, 2) pairs of such indices, c0 <= c1, both orderings already added (hadronic tables)
    <set>/cv, stat          (N) measured value and its uncorrelated statistical error, in the unit of the prediction
    <set>/sys               (N, K) one-sigma errors, absolute, signed
    <set>/sys_names         (K) a name ending in UNCORR: independent for each point; in CORR: common to the points of
                            this set; any other: also common to all sets that have a column of that name
    <set>/sys_is_mult       (K) True: the error scales with the value
    <set>/kin               (N, 2 or 3) kinematics, named by its attribute `columns`, which hadronic sets may lack;
                            x, Q2 [GeV2] first in deep-inelastic sets
    <set>/cuts              (N) row of each point in the published set
    <set>/t0                (N) optional: predictions that scale the multiplicative errors
    <set>/covmat            (N, N) optional, ignored: the covariance that stat and sys add up to
    positivity/<set>/fk     (N, X, F) with flav or (N, C, X, X) with channels, and optional kin: predictions that must
                            not be negative

Limits (limits.py), looked at before anything is read: N at most 10 000, X 1000, F 14, C 105, K 10 000, 1000 sets
of either kind; 64 MB for a point of a table, 4 GB a table, 100 MB any other array, all of them 256 MB and 200 bytes for
each byte of the file; chunks of 64 MB at most, each written, under gzip, shuffle and fletcher32 alone. Numbers are at
most 1e15 either way, x and kinematic x at least 1e-12, Q0 0.1 to 10 000 GeV, all errors of a point together at least
1e-9 of its value; no sum of tables that is zero for a point. Names are printable, 200 characters long at most.

Prediction: y[n] = sum over x, f of fk[n, x, f] xf_f(x, Q0), or sum over c, x, z of fk[n, c, x, z] xf_c0(x) xf_c1(z).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np

from tfperf.arrays import BoolMask, Float64Array, FloatArray, Indices, Int64Array
from tfperf.data.cache import digest, digest_file
from tfperf.errors import PackError
from tfperf.results.reading import refuse_special

LAYOUT = 1
POSITIVITY = "positivity"
# operation -> names of its tables, in the order of its formula
OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "NULL": ("fk",),
    "RATIO": ("fk_num", "fk_den"),
    "ASY": ("fk_a", "fk_b"),
    "ADD": ("fk_a", "fk_b"),
    "SMN": tuple(f"fk_{c}" for c in "abcd"),
    "COM": tuple(f"fk_{c}" for c in "abcdefghijklmnopqrst"),
}


@dataclass(frozen=True)
class Table:
    """A forward operator; it stays on disk until `read_values` is called, for hadronic ones take gigabytes together.

    It gives (rows, X, F) with one flavour per channel, or (rows, C, X, X) with two, in the precision of the file.
    """

    read_values: Callable[[], FloatArray]
    row_count: int
    channels: tuple[tuple[str, ...], ...]
    source: str | None = None  # digest of where the values come from: the file's content, the place in it, the rows

    @property
    def hadronic(self) -> bool:
        """True with two PDFs."""
        return len(self.channels[0]) == 2

    def select_rows(self, keep: Indices) -> "Table":
        """The same operator for the given rows."""
        source = None if self.source is None else digest(self.source, keep)
        return Table(lambda: self.read_values()[keep], len(keep), self.channels, source)


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """One set of measurements with its forward operator. N points, K systematics."""

    name: str
    operation: str
    tables: tuple[Table, ...]  # each of N rows, or of one that serves all points
    cv: Float64Array  # (N)
    stat: Float64Array  # (N)
    sys: Float64Array  # (N, K)
    sys_names: tuple[str, ...]  # (K)
    sys_is_mult: BoolMask  # (K)
    kin: Float64Array  # (N, 2 or 3)
    kin_names: tuple[str, ...]  # of its columns; x, Q2, y in deep-inelastic sets
    cuts: Int64Array  # (N)
    t0: Float64Array | None  # (N)
    attributes: Mapping[str, str] = field(default_factory=dict)

    def select_points(self, keep: Indices) -> "Dataset":
        """The same set with the given points only."""

        def cut(t: Table) -> Table:
            return t if t.row_count == 1 and len(self.cv) != 1 else t.select_rows(keep)

        return Dataset(
            name=self.name, operation=self.operation, tables=tuple(cut(t) for t in self.tables),
            cv=self.cv[keep], stat=self.stat[keep],
            sys=self.sys[keep], sys_names=self.sys_names, sys_is_mult=self.sys_is_mult, kin=self.kin[keep],
            kin_names=self.kin_names, cuts=self.cuts[keep],
            t0=None if self.t0 is None else self.t0[keep], attributes=self.attributes,
        )  # fmt: skip


@dataclass(frozen=True)
class PositivitySet:
    """Predictions that must not be negative."""

    name: str
    table: Table


@dataclass(frozen=True)
class Pack:
    """A fit problem in memory: x (X), Q0 in GeV, datasets and positivity sets in the order asked for."""

    path: Path
    x: Float64Array
    q0: float
    datasets: tuple[Dataset, ...]
    positivity: tuple[PositivitySet, ...]


@contextmanager
def open_pack(path: Path) -> Iterator[h5py.File]:
    """The pack opened for reading; PackError when it is missing or is no HDF5 file."""
    try:
        refuse_special(path)
        file = h5py.File(path, "r")
    except (OSError, ValueError) as error:
        raise PackError(f"{path}: cannot be read as an HDF5 data pack ({error})") from None
    with file:
        yield file


def list_sets(file: h5py.File) -> tuple[str, ...]:
    """Names of the datasets of an opened pack."""
    return tuple(k for k in file if isinstance(file[k], h5py.Group) and k != POSITIVITY)


def count_points(path: Path) -> dict[str, int]:
    """Points of each dataset of a pack, then of each positivity set."""
    with open_pack(path) as file:
        found = {name: len(file[name]["cv"]) for name in list_sets(file)}
        for name, group in file.get(POSITIVITY, {}).items():
            found[f"{POSITIVITY}/{name}"] = len(group["fk"])
    return found


def _decode_text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _make_table(group: h5py.Group, name: str) -> Table:
    path, where = group.file.filename, f"{group.name}/{name}"
    flavours = [_decode_text(f) for f in group.file.attrs["flavours"]]
    axes = group["channels"][:] if "channels" in group else group["flav"][:][:, None]

    def read_values() -> FloatArray:
        with open_pack(Path(path)) as file:
            out: FloatArray = file[where][:]
        return out

    source = digest(digest_file(Path(path)), where)
    return Table(read_values, len(group[name]), tuple(tuple(flavours[i] for i in axis) for axis in axes), source)


def _read_kin_names(group: h5py.Group) -> tuple[str, ...]:
    count = group["kin"].shape[1]
    if "channels" not in group:
        return ("x", "Q2", "y")[:count]
    return tuple(_decode_text(c) for c in group["kin"].attrs.get("columns", [f"k{i + 1}" for i in range(count)]))


def read_dataset(file: h5py.File, name: str) -> Dataset:
    """One dataset of a validated pack; its tables are read when they are used."""
    group = file[name]
    operation = _decode_text(group.attrs["operation"])
    return Dataset(
        name=name, operation=operation, tables=tuple(_make_table(group, t) for t in OPERATIONS[operation]),
        cv=group["cv"][:].astype(np.float64), stat=group["stat"][:].astype(np.float64),
        sys=group["sys"][:].astype(np.float64), sys_names=tuple(_decode_text(s) for s in group["sys_names"][:]),
        sys_is_mult=group["sys_is_mult"][:].astype(bool), kin=group["kin"][:].astype(np.float64),
        kin_names=_read_kin_names(group), cuts=group["cuts"][:].astype(np.int64),
        t0=group["t0"][:].astype(np.float64) if "t0" in group else None,
        attributes={k: _decode_text(v) for k, v in group.attrs.items() if np.ndim(v) == 0},
    )  # fmt: skip


def read_positivity(file: h5py.File, name: str) -> PositivitySet:
    """One positivity set of a validated pack."""
    return PositivitySet(name, _make_table(file[POSITIVITY][name], "fk"))


def read_pack_attributes(path: Path) -> dict[str, str | float]:
    """The scalar attributes of the file: Q0, masses, couplings, provenance, as text and numbers."""
    with open_pack(path) as file:
        scalars = {k: v for k, v in file.attrs.items() if np.ndim(v) == 0}
    return {k: float(v) if isinstance(v, np.number) else _decode_text(v) for k, v in scalars.items()}
