"""`tfperf join-packs`: several data packs as one, whose systematic errors of one name are one error.

That they are is the convention of the layout (pack.py): a name that ends in neither CORR nor UNCORR is one error in all
sets that have it, wherever these come from.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tfperf.errors import PackError, UserError
from tfperf.results.files import write_hdf5
from tfperf.workloads.pdf.data.pack import LAYOUT, POSITIVITY, list_sets, open_pack
from tfperf.workloads.pdf.data.validate import validate
from tfperf.workloads.pdf.data.write import refuse_faults

SAME = 1e-10  # relative distance of two nodes, or two scales, that are one
THEORY = ("alphas_mz", "mz", "mc", "mb", "mt")  # that all packs must share which name them
OWN = ("layout", "Q0", "flavours")  # that are not joined as texts
T0_SOURCE = "t0_provenance"  # of a whole pack, in which each set may have its own
PARAMETERS = "theory"  # all of one theory: kept where all packs that tell it tell the same


def join_packs(sources: Sequence[Path], target: Path) -> Path:
    """Write the sets of all packs to a new pack; returns `target`. Sets keep their order, and their bytes.

    Attributes that differ are kept one after the other, the provenance with the names of the packs; a `theory` that
    differs is left out. Positivity sets that several
    packs have must be the same.

    Raises: UserError where fewer than two are named, or `target` exists; PackError for a faulty pack, for packs of
    other grids, scales or parameters of the theory, and for sets that several have; StorageError.
    """
    if len(sources) < 2:
        raise UserError(f"join-packs: got {len(sources)} pack; at least two are wanted")
    if target.exists():
        raise UserError(f"{target}: exists; name a new file or remove it")
    for path in sources:
        validate(path)
    parameters: list[str] = []
    with write_hdf5(target) as new:
        for path in sources:
            with open_pack(path) as old:
                if faults := _find_misfits(new, old, path, sources[0]):
                    raise PackError(*faults)
                _add(new, old, path)
                parameters += [str(old.attrs[PARAMETERS])] if PARAMETERS in old.attrs else []
        if len(set(parameters)) == 1:
            new.attrs[PARAMETERS] = parameters[0]
        new.attrs["layout"] = LAYOUT
        refuse_faults(new, target)
    return target


def describe_mixture(path: Path) -> str | None:
    """That tables of several orders are in a pack; None where they are of one, or nothing tells."""
    with open_pack(path) as file:
        orders = list(dict.fromkeys(str(file.attrs.get("order", "")).split("; ")))
    return f"tables of several orders are joined: {', '.join(orders)}" if len(orders) > 1 else None


def _find_misfits(new: h5py.File, old: h5py.File, path: Path, first: Path) -> list[str]:
    """Why a pack cannot be added to what is there."""
    if "x" not in new:
        return []
    x, nodes = new["x"][:], old["x"][:]
    faults = []
    if x.shape != nodes.shape or not np.allclose(x, nodes, rtol=SAME, atol=0):
        faults.append(f"{path}: x: has other nodes than {first}; packs of one grid can be joined")
    for name in ("Q0", *THEORY):
        if name in new.attrs and name in old.attrs and not _is_same_number(new.attrs[name], old.attrs[name]):
            told = f"got {old.attrs[name]}; must be {new.attrs[name]}, as in the packs before it"
            faults.append(f"{path}: {name}: {told}")
    twice = [name for name in list_sets(old) if name in new]
    faults += [f"{path}: {name}: a pack before it has a set of that name" for name in twice]
    there = new.get(POSITIVITY, {})
    for name in (one for one in old.get(POSITIVITY, {}) if one in there):
        if not _is_same(there[name], old[POSITIVITY][name]):
            faults.append(f"{path}: {POSITIVITY}/{name}: has other tables than in a pack before it")
    return faults


def _is_same_number(one: Any, other: Any) -> bool:
    """Whether two attributes are one number, or one text."""
    try:
        return bool(np.isclose(float(one), float(other), rtol=SAME))
    except (TypeError, ValueError):
        return str(one) == str(other)


def _is_same(one: h5py.Group, other: h5py.Group) -> bool:
    """Whether two sets have the same tables."""
    return set(one) == set(other) and all(np.array_equal(one[name][()], other[name][()]) for name in one)


def _add(new: h5py.File, old: h5py.File, path: Path) -> None:
    """All of a pack that is not there yet."""
    if "x" not in new:
        old.copy("x", new)
    for name in list_sets(old):
        old.copy(name, new)
        if "t0" in new[name] and T0_SOURCE in old.attrs:
            new[name].attrs.setdefault(T0_SOURCE, old.attrs[T0_SOURCE])
    if POSITIVITY in old:
        group = new.require_group(POSITIVITY)
        for name in old[POSITIVITY]:
            if name not in group:
                old[POSITIVITY].copy(name, group)
    _add_attributes(new, old, path)


def _add_attributes(new: h5py.File, old: h5py.File, path: Path) -> None:
    """What a pack says of itself, after what those before it said."""
    for name, value in ((n, v) for n, v in old.attrs.items() if n not in (T0_SOURCE, PARAMETERS)):
        before = new.attrs.get(name)
        if before is None:
            new.attrs[name] = f"{path.name}: {value}" if name == "provenance" else value
        elif name == "provenance":
            new.attrs[name] = f"{before}; {path.name}: {value}"
        elif name not in (*OWN, *THEORY) and not np.array_equal(before, value):
            new.attrs[name] = f"{before}; {value}"
