"""Checks a data pack (layout: pack.py) before anything is read from it: every fault at once."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tfperf.arrays import AnyArray
from tfperf.errors import FileLimitError, PackError
from tfperf.results.file_limits import Budget, read_attribute, read_attributes
from tfperf.results.heaps import refuse_broken_heaps
from tfperf.workloads.pdf.data.checks import check_axes, check_kinematics, check_points, check_tables
from tfperf.workloads.pdf.data.fields import (
    DAMAGE,
    Faults,
    Field,
    find_zero_rows,
    get_own_array,
    get_own_arrays,
    get_own_group,
    has_shape_and_type,
    list_names,
    read_values,
    suggest_nearest,
)
from tfperf.workloads.pdf.data.limits import LEAST_X, NAME_LENGTH, Q0_RANGE, SETS, TABLE_BYTES, TEXT_LENGTH
from tfperf.workloads.pdf.data.pack import LAYOUT, OPERATIONS, POSITIVITY, open_pack

FLAVOURS = ("photon", "sigma", "g", "v", "v3", "v8", "v15", "v24", "v35", "t3", "t8", "t15", "t24", "t35")
MEASURED: Mapping[str, Field] = {
    "cv": Field("float", ("N",)),
    "stat": Field("float", ("N",)),
    "sys": Field("float", ("N", "K")),
    "sys_names": Field("text", ("K",)),
    "sys_is_mult": Field("boolean", ("K",)),
    "kin": Field("float", ("N", "D")),
    "cuts": Field("integer", ("N",)),
}
OPTIONAL: Mapping[str, Field] = {"t0": Field("float", ("N",)), "covmat": Field("float", ("N", "N"))}
AXES: Mapping[str, Field] = {"flav": Field("integer", ("F",)), "channels": Field("integer", ("C", 2))}
GRID = Field("float", ("X",))
DEEP_INELASTIC = Field("float", ("N", "X", "F"), TABLE_BYTES)
HADRONIC = Field("float", ("N", "C", "X", "X"), TABLE_BYTES)
TABLES = tuple(dict.fromkeys(t for tables in OPERATIONS.values() for t in tables))


def validate(path: Path) -> None:
    """Return if `path` is a pack that a fit can use; else raise PackError with all its faults.

    Each fault reads `FILE: set/field: what was found; what is allowed`. Tables are read in slabs of 16 MB.
    """
    with open_pack(path) as file:
        try:
            refuse_broken_heaps(file, path)
        except (OSError, ValueError) as error:
            raise PackError(f"{path}: /: cannot be read ({error}); an undamaged HDF5 file") from None
        faults = check(file, path)
    if faults:
        raise PackError(*faults)


def check(file: h5py.File, path: Path) -> list[str]:
    """All faults of an opened pack; `path` is the name they give it."""
    faults = Faults(path, Budget(file))
    try:
        read_attributes(file)
        layout = read_attribute(file, "layout", LAYOUT)
        if isinstance(layout, int | np.integer) and layout == LAYOUT:
            _check_root(file, faults)
        else:
            faults.add("/layout", f"got {layout!s}", f"this program reads layout {LAYOUT}")
    except FileLimitError as claim:
        faults.add("/", claim.found, claim.allowed)
    except DAMAGE as error:
        faults.add("/", f"cannot be read ({error})", "an undamaged HDF5 file")
    return faults.lines


def _check_root(file: h5py.File, faults: Faults) -> None:
    _check_root_attributes(file, faults)
    if not _are_few(file, "/", faults):
        return
    present = list_names(file, ("x", POSITIVITY))
    sizes = {"X": nodes} if (nodes := _check_grid(file, present, faults)) else {}
    sets = [name for name in present if name not in ("x", POSITIVITY)]
    for name in sets:
        if (group := get_own_group(file, name, name, faults)) is not None:
            _check_set(_check_dataset, group, name, sizes, faults)
    if not sets:
        faults.add("/", "no dataset", "at least one")
    parent = get_own_group(file, POSITIVITY, POSITIVITY, faults) if POSITIVITY in present else None
    for name in list_names(parent, ("fk",)) if parent is not None and _are_few(parent, POSITIVITY, faults) else ():
        place = f"{POSITIVITY}/{name}"
        if (group := get_own_group(parent, name, place, faults)) is not None:
            _check_set(_check_positivity_set, group, place, sizes, faults)


def _are_few(group: h5py.Group, place: str, faults: Faults) -> bool:
    """Whether there are not too many sets; a fault where there are."""
    if len(group) <= SETS + 2:
        return True
    faults.add(place, f"{len(group)} entries", f"at most {SETS} sets")
    return False


def _check_set(check_set: Any, group: h5py.Group, place: str, sizes: Mapping[str, int], faults: Faults) -> None:
    """One set; damage in it does not hide the faults of the others."""
    name = place.rpartition("/")[2]
    if len(name) > NAME_LENGTH or not name.isprintable():
        faults.add(place, f"a name of {len(name)} characters", f"at most {NAME_LENGTH}, all printable")
    try:
        read_attributes(group)
        check_set(group, place, sizes, faults)
    except FileLimitError as claim:
        faults.add(place, claim.found, claim.allowed)
    except DAMAGE as error:
        faults.add(place, f"cannot be read ({error})", "an undamaged group")


def _check_root_attributes(file: h5py.File, faults: Faults) -> None:
    q0, (low, high) = read_attribute(file, "Q0"), Q0_RANGE
    if not isinstance(q0, float | int | np.integer | np.floating) or not low <= q0 <= high:
        must = f"must be the input scale in GeV, a positive number from {low:g} to {high:g}"
        faults.add("/Q0", f"got {q0!r}", must)
    if not isinstance(text := read_attribute(file, "provenance"), str) or not text:
        faults.add("/provenance", f"got {text!r}", "must be a text: where tables and measurements come from")
    names = np.atleast_1d(read_attribute(file, "flavours", ())).tolist()
    if tuple(n.decode() if isinstance(n, bytes) else n for n in names) != FLAVOURS:
        faults.add("/flavours", f"got {names}", "must be " + " ".join(FLAVOURS))


def _check_grid(file: h5py.File, present: Sequence[str], faults: Faults) -> int | None:
    """Number of grid nodes, None where it cannot be known."""
    if "x" not in present:
        faults.add("x", "missing", "the grid nodes")
        return None
    array = get_own_array(file, "x", "x", faults)
    if array is None or not has_shape_and_type(array, "x", GRID, {}, faults):
        return None
    x = read_values(array, "x", GRID, faults)
    if x is not None and not (x[0] >= LEAST_X and x[-1] <= 1 and np.all(np.diff(x) > 0)):
        faults.add("x", f"nodes {x[0]:g}, ... {x[-1]:g}", f"must increase and lie in (0, 1], from {LEAST_X:g} on")
    return len(array)


def _check_dataset(group: h5py.Group, place: str, sizes: Mapping[str, int], faults: Faults) -> None:
    tables = _check_operation(group, place, faults)
    axis = _find_axis(group)
    allowed = (*(tables or TABLES), axis, *MEASURED, *OPTIONAL)
    found = get_own_arrays(group, place, allowed, (*(tables or ()), axis, *MEASURED), faults)
    arrays = _read_arrays(found, place, sizes, faults)
    for name in ("experiment", "process", "label"):
        text = read_attribute(group, name, "")
        if not isinstance(text, str) or len(text) > TEXT_LENGTH or not text.isprintable():
            must = f"must be a text of at most {TEXT_LENGTH} printable characters"
            faults.add(f"{place}/{name}", f"got {text!r}", must)
    check_tables(arrays, tables or (), place, faults)
    check_points(arrays, place, faults)
    if "kin" in found:
        check_kinematics(found["kin"], arrays.get("kin"), place, axis == "flav", faults)


def _check_operation(group: h5py.Group, place: str, faults: Faults) -> tuple[str, ...] | None:
    """Names of the tables that the operation needs; None, and a fault, when it is unknown."""
    operation = read_attribute(group, "operation")
    operation = operation.decode(errors="replace") if isinstance(operation, bytes) else operation
    if isinstance(operation, str) and operation in OPERATIONS:
        return OPERATIONS[operation]
    hint = suggest_nearest(operation.upper(), OPERATIONS) if isinstance(operation, str) else ""
    faults.add(f"{place}/operation", f"got {operation!r}{hint}", "must be one of " + ", ".join(OPERATIONS))
    return None


def _find_axis(group: h5py.Group) -> str:
    """`channels` for hadronic sets, `flav` for the others."""
    return "flav" if group.get("channels", getlink=True) is None else "channels"


def _check_positivity_set(group: h5py.Group, place: str, sizes: Mapping[str, int], faults: Faults) -> None:
    axis = _find_axis(group)
    found = get_own_arrays(group, place, ("fk", axis, "kin"), ("fk", axis), faults)
    arrays = _read_arrays(found, place, sizes, faults)
    check_tables(arrays, OPERATIONS["NULL"], place, faults)
    if "kin" in found:
        check_kinematics(found["kin"], arrays.get("kin"), place, False, faults)


def _read_arrays(
    found: Mapping[str, h5py.Dataset], place: str, sizes: Mapping[str, int], faults: Faults
) -> dict[str, AnyArray]:
    """The sound arrays of a set; of the tables, which may be large, which rows are zero."""
    sizes = {**sizes, **_find_sizes(found)}
    table = HADRONIC if "channels" in found else DEEP_INELASTIC
    fields = {**MEASURED, **OPTIONAL, **AXES, **dict.fromkeys(TABLES, table)}
    arrays: dict[str, AnyArray] = {}
    for name, array in found.items():
        where = f"{place}/{name}"
        own = {**sizes, "N": 1} if _serves_all(name, array.shape) else sizes
        if not has_shape_and_type(array, where, fields[name], own, faults) or name == "covmat":
            continue
        got = (
            find_zero_rows(array, where, faults) if name in TABLES else read_values(array, where, fields[name], faults)
        )
        if got is not None:
            arrays[name] = got
    check_axes(arrays, place, len(FLAVOURS), faults)
    return arrays


def _serves_all(name: str, shape: tuple[int, ...] | None) -> bool:
    """Whether it is a denominator of one row, which all points share."""
    return name == "fk_den" and shape is not None and shape[:1] == (1,)


def _find_sizes(found: Mapping[str, h5py.Dataset]) -> dict[str, int]:
    """N and K as most arrays of the set have them, so that the odd one out is named; F and C."""
    shapes = {name: array.shape for name, array in found.items() if array.shape}
    columns = ("sys_names", "sys_is_mult")
    votes = {
        "N": [s[0] for n, s in shapes.items() if n not in (*columns, *AXES) and not _serves_all(n, s)],
        "K": [s[-1] for n, s in shapes.items() if n in (*columns, "sys")],
        "F": [s[0] for n, s in shapes.items() if n == "flav"],
        "C": [s[0] for n, s in shapes.items() if n == "channels"],
    }
    return {size: Counter(vote).most_common(1)[0][0] for size, vote in votes.items() if vote}
