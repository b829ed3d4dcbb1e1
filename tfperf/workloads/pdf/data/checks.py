"""What the values of one set of a data pack must fulfil, once its arrays have the right form and are finite."""

from collections import Counter
from collections.abc import Sequence

import h5py
import numpy as np

from tfperf.arrays import AnyArray, ArraysByName, BoolMask
from tfperf.results.file_limits import read_attribute
from tfperf.workloads.pdf.data.fields import Faults
from tfperf.workloads.pdf.data.limits import LAST_ROW, LEAST_ERROR, LEAST_SCALE, LEAST_X, TEXT_LENGTH


def check_axes(arrays: ArraysByName, place: str, flavours: int, faults: Faults) -> None:
    """Indices of flavours (F) or of pairs of them (C, 2): in range, none twice, pairs in order."""
    for name in ("flav", "channels"):
        if name not in arrays:
            continue
        indices = arrays[name]
        if indices.min() < 0 or indices.max() >= flavours:
            faults.add(f"{place}/{name}", f"an index of {_find_odd(indices, flavours)}", f"must be 0 to {flavours - 1}")
        if len(np.unique(indices, axis=0)) != len(indices):
            faults.add(f"{place}/{name}", f"an entry twice in {indices.tolist()}", "each once")
    if "channels" in arrays and np.any(arrays["channels"][:, 0] > arrays["channels"][:, 1]):
        faults.add(f"{place}/channels", "a pair in falling order", "pairs c0 <= c1, both orderings already added")


def _find_odd(indices: AnyArray, flavours: int) -> int:
    return int(indices[(indices < 0) | (indices >= flavours)][0])


def check_points(arrays: ArraysByName, place: str, faults: Faults) -> None:
    """Values, errors and row numbers of the points (N)."""
    _check_stat(arrays, f"{place}/stat", faults)
    _check_scales(arrays, place, faults)
    _check_names(arrays, place, faults)
    if (cuts := arrays.get("cuts")) is not None:
        if np.any(cuts < 0) or np.any(cuts > LAST_ROW):
            odd = cuts.max() if cuts.min() >= 0 else cuts.min()
            faults.add(f"{place}/cuts", f"row {odd}", f"rows of the published set, counted from 0, up to {LAST_ROW}")
        if np.any(np.diff(cuts.astype(np.int64)) <= 0):
            faults.add(f"{place}/cuts", "rows out of order or twice", "must increase")


def _check_stat(arrays: ArraysByName, place: str, faults: Faults) -> None:
    if (stat := arrays.get("stat")) is None:
        return
    if np.any(stat < 0):
        faults.add(place, f"negative at {_format_points(stat < 0)}", "errors of zero or more")
    if (sys := arrays.get("sys")) is not None and len(sys) == len(stat):
        total = np.hypot(stat.astype(np.float64), np.linalg.norm(sys.astype(np.float64), axis=1))
        if (bare := total == 0).any():
            faults.add(place, f"no error at all, stat and sys zero, at {_format_points(bare)}", "a total above zero")
        elif (cv := arrays.get("cv")) is not None and len(cv) == len(stat):
            tiny = total < LEAST_ERROR * np.abs(cv)
            if tiny.any():
                faults.add(place, f"errors below {LEAST_ERROR:g} of the value at {_format_points(tiny)}", "more")


def _check_scales(arrays: ArraysByName, place: str, faults: Faults) -> None:
    """Multiplicative errors are fractions of cv, scaled by t0: neither may vanish where such an error does not."""
    if "sys" not in arrays or "sys_is_mult" not in arrays:
        return
    errors = arrays["sys"][:, arrays["sys_is_mult"].astype(bool)]
    largest = np.abs(errors).max(axis=1, initial=0)
    for name in ("cv", "t0"):
        if (scale := arrays.get(name)) is not None and len(scale) == len(largest):
            lost = (largest > 0) & (np.abs(scale) <= LEAST_SCALE * largest)
            if lost.any():
                allowed = f"not zero, nor below {LEAST_SCALE:g} of an error, where that is multiplicative"
                near = "" if (scale[lost] == 0).any() else "nearly "
                faults.add(f"{place}/{name}", f"{near}zero at {_format_points(lost)}", allowed)


def _check_names(arrays: ArraysByName, place: str, faults: Faults) -> None:
    names: Sequence[str] = arrays["sys_names"].tolist() if "sys_names" in arrays else ()
    if "" in names:
        faults.add(f"{place}/sys_names", "an empty name", "a name for each column of sys")
    twice = [n for n, times in Counter(names).items() if times > 1 and n and not n.endswith("CORR")]
    if twice:
        faults.add(f"{place}/sys_names", f"{twice[0]} twice", "once, for it is common to all sets that have that name")


def check_kinematics(kin: h5py.Dataset, values: AnyArray | None, place: str, dis: bool, faults: Faults) -> None:
    """The attribute `columns` names the columns (D); deep-inelastic sets begin with x in (0, 1] and Q2 > 0.

    `kin` is the stored array, `values` its values (N, D) or None where they are at fault.
    """
    where = f"{place}/kin"
    if len(kin.shape or ()) == 2 and kin.shape[1] not in (2, 3):
        faults.add(where, f"got {kin.shape[1]} columns", "must be 2 or 3")
    columns = np.atleast_1d(read_attribute(kin, "columns", ())).tolist()
    if not columns and not dis:
        return
    allowed = "one name per column" + (", x and Q2 first" if dis else "")
    short = len(kin.shape or ()) == 2 and len(columns) != kin.shape[1]
    odd = [c for c in columns if len(str(c)) > TEXT_LENGTH or not str(c).isprintable()]
    if short or odd or len(set(columns)) != len(columns) or (dis and columns[:2] != ["x", "Q2"]):
        faults.add(where, f"columns {columns}", allowed)
    elif values is not None and dis:
        x, q2 = values[:, 0], values[:, 1]
        off = (x < LEAST_X) | (x > 1) | (q2 <= 0)
        if off.any():
            faults.add(where, f"x or Q2 out of range at {_format_points(off)}", f"{LEAST_X:g} <= x <= 1, Q2 > 0 GeV2")


def check_tables(zero: ArraysByName, tables: Sequence[str], place: str, faults: Faults) -> None:
    """A prediction that no PDF changes, or that divides by zero: where all tables of a sum are zero.

    zero: which rows of each table are; tables: those of the operation, a half of them above and a half below the line
    where it is a ratio of sums.
    """
    half = len(tables) // 2
    sums = [tables[:half], tables[half:]] if tables[-1:] in (("fk_den",), ("fk_d",), ("fk_t",)) else [tables]
    for names in sums:
        complete = names and all(name in zero for name in names) and len({len(zero[name]) for name in names}) == 1
        if complete and (lost := np.logical_and.reduce([zero[name] for name in names])).any():
            found = f"tables of zeros at {_format_points(lost)}"
            faults.add(f"{place}/{names[0]}", found, "entries that are not zero")


def _format_points(which: BoolMask) -> str:
    """The first point (counted from 0) of those marked, and how many there are."""
    return f"point {int(which.argmax())} ({int(which.sum())} of {len(which)})"
