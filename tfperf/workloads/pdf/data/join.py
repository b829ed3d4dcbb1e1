"""`tfperf join-packs`: several data packs as one, whose systematic errors of one name are one error.

That they are is the convention of the layout (pack.py): a name that ends in neither CORR nor UNCORR is one error in all
sets that have it, wherever these come from.
"""

from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np

from tfperf.errors import PackError, UserError
from tfperf.results.files import write_hdf5
from tfperf.workloads.pdf.data.pack import LAYOUT, POSITIVITY, list_sets, open_pack
from tfperf.workloads.pdf.data.validate import validate
from tfperf.workloads.pdf.data.write import refuse_faults

SAME = 1e-10  # relative distance of two nodes, or two scales, that are one
THEORY = ("alphas_mz", "mz", "mc", "mb", "mt")  # that all packs must share which name them
OWN = ("layout", "Q0", "flavours", "t0_provenance")  # that are not joined as texts


def join_packs(sources: Sequence[Path], target: Path) -> Path:
    """Write the sets of all packs to a new pack; returns `target`. Sets keep their order, and their bytes.

    Attributes that differ are kept one after the other, with the names of their packs. Positivity sets that several
    packs have must be the same.

    Raises: UserError where fewer than two are named, or `target` exists; PackError for a faulty pack, for packs of
    other grids, scales or parameters of the theory, and for sets that several have; StorageError.
    """
    if len(sources) < 2:
        raise UserError(f"join-packs: got {len(sources)} packs; at least two are allowed")
    if target.exists():
        raise UserError(f"{target}: exists; name a new file or remove it")
    for path in sources:
        validate(path)
    with write_hdf5(target) as new:
        for path in sources:
            with open_pack(path) as old:
                if faults := _find_misfits(new, old, path, sources[0]):
                    raise PackError(*faults)
                _add(new, old, path)
        new.attrs["layout"] = LAYOUT
        refuse_faults(new, target)
    return target


def _find_misfits(new: h5py.File, old: h5py.File, path: Path, first: Path) -> list[str]:
    """Why a pack cannot be added to what is there."""
    if "x" not in new:
        return []
    x, nodes = new["x"][:], old["x"][:]
    faults = []
    if x.shape != nodes.shape or not np.allclose(x, nodes, rtol=SAME, atol=0):
        faults.append(f"{path}: x: has other nodes than {first}; packs of one grid can be joined")
    for name in ("Q0", *THEORY):
        if name in new.attrs and name in old.attrs and not np.isclose(new.attrs[name], old.attrs[name], rtol=SAME):
            told = f"got {old.attrs[name]:g}; must be {new.attrs[name]:g}, as in the packs before it"
            faults.append(f"{path}: {name}: {told}")
    twice = [name for name in list_sets(old) if name in new]
    faults += [f"{path}: {name}: a pack before it has a set of that name" for name in twice]
    there = new.get(POSITIVITY, {})
    for name in (one for one in old.get(POSITIVITY, {}) if one in there):
        if not _is_same(there[name], old[POSITIVITY][name]):
            faults.append(f"{path}: {POSITIVITY}/{name}: differs from that of a pack before it")
    return faults


def _is_same(one: h5py.Group, other: h5py.Group) -> bool:
    """Whether two sets have the same tables."""
    return set(one) == set(other) and all(np.array_equal(one[name][()], other[name][()]) for name in one)


def _add(new: h5py.File, old: h5py.File, path: Path) -> None:
    """All of a pack that is not there yet."""
    if "x" not in new:
        old.copy("x", new)
    for name in list_sets(old):
        old.copy(name, new)
    if POSITIVITY in old:
        group = new.require_group(POSITIVITY)
        for name in old[POSITIVITY]:
            if name not in group:
                old[POSITIVITY].copy(name, group)
    for name, value in old.attrs.items():
        before = new.attrs.get(name)
        if before is None:
            new.attrs[name] = f"{path.name}: {value}" if name == "provenance" else value
        elif name == "provenance":
            new.attrs[name] = f"{before}; {path.name}: {value}"
        elif name not in (*OWN, *THEORY) and not np.array_equal(before, value):
            new.attrs[name] = f"{before}; {value}"
