"""One stored array of a data pack: its type, its shape in terms of the pack's sizes, its values.

Sizes: N points, X grid nodes, F flavours, C luminosity channels, K systematic errors, D kinematic columns, M
lines of a theory covariance.
"""

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from tfperf.arrays import AnyArray, BoolMask
from tfperf.errors import FileLimitError
from tfperf.results.file_limits import Budget
from tfperf.results.reading import quote_text
from tfperf.workloads.pdf.data.limits import ARRAY_BYTES, FAULTS, FIELDS, LARGEST, MOST, NAME_LENGTH, ROW_BYTES

# what h5py raises on damaged files
DAMAGE = (OSError, RuntimeError, LookupError, ValueError, TypeError, AttributeError, ArithmeticError, MemoryError)
SLAB_BYTES = 1 << 24  # bytes of a table held at a time
PLACE, QUOTED = 2 * NAME_LENGTH, 1000  # characters of where it was found, and of what
KINDS: Mapping[str, str] = {"float": "f", "integer": "iu", "boolean": "b", "text": "SOU"}
EMPTY = "fiubSOU"  # of arrays without entries, whatever they are for
MEANING: Mapping[str, str] = {
    "N": "points", "X": "nodes of x", "F": "entries of flav", "C": "rows of channels", "K": "columns of sys",
    "D": "2 or 3 columns", "M": "lines of covmat",
}  # fmt: skip


@dataclass(frozen=True)
class Field:
    """What one array must be: kind of number (a key of KINDS) and named sizes, or a number for a fixed one."""

    kind: str
    dims: tuple[str | int, ...]
    bytes: int = ARRAY_BYTES  # at most
    largest: float = LARGEST  # number, either way


class Faults:
    """The faults of one file, in the order found: `FILE: place: what was found; what is allowed`; the first FAULTS."""

    def __init__(self, path: Path, budget: Budget) -> None:
        self.path, self.budget = path, budget
        self.count = 0
        self.lines: list[str] = []

    def add(self, place: str, found: str, allowed: str) -> None:
        """Note one fault."""
        self.count += 1
        if self.count <= FAULTS:
            self.lines.append(f"{self.path}: {quote_text(place, PLACE)}: {quote_text(found, QUOTED)}; {allowed}")
        elif self.count == FAULTS + 1:
            self.lines.append(f"{self.path}: /: more than {FAULTS} faults; the others are not listed")


def suggest_nearest(name: str, allowed: Iterable[str]) -> str:
    """`, did you mean ...?` when one of the allowed names is close to `name`, else nothing."""
    near = difflib.get_close_matches(name[:NAME_LENGTH], list(allowed), 1)
    return f", did you mean {near[0]}?" if near else ""


def list_names(group: h5py.Group, likely: Iterable[str]) -> list[str]:
    """Names of what is in a group; those that are likely are looked up first, which finds damage.

    HDF5 1.14 ends the process with a segmentation fault when it is asked to list a damaged group.
    """
    for name in likely:
        group.get(name, getlink=True)
    return list(group)


def get_own_arrays(
    group: h5py.Group, place: str, allowed: Collection[str], required: Iterable[str], faults: Faults
) -> dict[str, h5py.Dataset]:
    """The arrays of a group that lie in this very file; everything else in it, and what is missing, is a fault."""
    found: dict[str, h5py.Dataset] = {}
    if len(group) > FIELDS:
        faults.add(place, f"{len(group)} fields", f"at most {FIELDS}")
        return found
    present = list_names(group, allowed)
    for name in present:
        where = f"{place}/{name}"
        if name not in allowed:
            faults.add(where, f"unknown field{suggest_nearest(name, allowed)}", "allowed: " + ", ".join(allowed))
        elif (array := get_own_array(group, name, where, faults)) is not None:
            found[name] = array
    for name in required:
        if name not in present:
            either = "flav for deep-inelastic tables, channels for hadronic ones"
            faults.add(f"{place}/{name}", "missing", either if name == "flav" else "every set has it")
    return found


def has_shape_and_type(array: h5py.Dataset, place: str, field: Field, sizes: Mapping[str, int], faults: Faults) -> bool:
    """Whether type and shape are right and values were ever written; a fault where not."""
    wanted = tuple(sizes.get(d) if isinstance(d, str) else d for d in field.dims)
    shape = array.shape
    before = faults.count
    if shape is None or len(shape) != len(wanted):
        names = ", ".join(str(d) for d in field.dims)
        faults.add(place, f"got shape {shape}", f"must have {len(wanted)} dimensions ({names})")
    elif any(w is not None and w != s for w, s in zip(wanted, shape, strict=True)):
        must = ", ".join("any" if w is None else str(w) for w in wanted)
        names = ", ".join(MEANING[d] if isinstance(d, str) else str(d) for d in field.dims)
        faults.add(place, f"got shape {shape}", f"must be ({must}): {names}")
    elif 0 in shape and "K" not in field.dims:
        faults.add(place, f"got shape {shape}", "must not be empty")
    elif beyond := [d for d, s in zip(field.dims, shape, strict=True) if isinstance(d, str) and s > MOST[d]]:
        limits = ", ".join(f"{MOST[d]} {MEANING[d]}" for d in beyond)
        faults.add(place, f"got shape {shape}", f"at most {limits}")
    else:
        _check_claim(array, place, field.bytes, faults)
    text = field.kind == "text" and h5py.check_string_dtype(array.dtype) is None
    if array.dtype.kind not in (KINDS[field.kind] if array.size else EMPTY) or (array.size and text):
        faults.add(place, f"got type {array.dtype}", f"must be {field.kind}")
    return faults.count == before


def _check_claim(array: h5py.Dataset, place: str, most: int, faults: Faults) -> None:
    """A fault where an array of the right shape claims more bytes than it may, or is stored in an odd way."""
    row = array.nbytes // max(1, array.shape[0])
    try:
        if array.ndim > 2 and row > ROW_BYTES:
            raise FileLimitError(f"{row} bytes for each point", f"at most {ROW_BYTES} are allowed")
        if array.dtype.kind == "S" and array.dtype.itemsize > NAME_LENGTH * 4:
            raise FileLimitError(f"texts of {array.dtype.itemsize} bytes", f"at most {NAME_LENGTH} characters")
        faults.budget.charge(array, most)
    except FileLimitError as claim:
        faults.add(place, claim.found, claim.allowed)


def _read_slabs(array: h5py.Dataset) -> Iterator[AnyArray]:
    rows = max(1, SLAB_BYTES // max(1, array.dtype.itemsize * array.size // array.shape[0]))
    for start in range(0, array.shape[0], rows):
        yield array[start : start + rows]


def find_zero_rows(array: h5py.Dataset, place: str, faults: Faults, largest: float = LARGEST) -> BoolMask | None:
    """Which rows of a table are zero (N), read slab by slab; None, and a fault, where its values are no good."""
    bad = beyond = 0
    zero: list[BoolMask] = []
    try:
        for slab in _read_slabs(array):
            bad += slab.size - int(np.count_nonzero(np.isfinite(slab)))
            # no number of a type of its own: 1e15 is none in half precision
            if not (float(slab.max()) <= largest and float(slab.min()) >= -largest):
                beyond += int(np.count_nonzero(np.abs(slab) > np.float64(largest)))
            zero.append(np.asarray(~slab.reshape(len(slab), -1).any(axis=1)))
    except DAMAGE as error:
        faults.add(place, f"cannot be read ({error})", "an undamaged array")
        return None
    if bad:
        faults.add(place, f"{bad} of {array.size} values are not finite", "finite numbers")
    elif beyond:
        faults.add(place, f"{beyond} of {array.size} values are beyond {largest:g}", f"at most {largest:g} either way")
    return None if bad or beyond else np.concatenate(zero)


def read_values(array: h5py.Dataset, place: str, field: Field, faults: Faults) -> AnyArray | None:
    """All values of an array of the right form, text as str; None, and a fault, when unreadable or out of range."""
    if field.kind == "float" and array.size and find_zero_rows(array, place, faults, field.largest) is None:
        return None
    try:
        return _read_texts(array) if field.kind == "text" and array.size else np.asarray(array[()])
    except UnicodeDecodeError:
        faults.add(place, "got bytes that are no text", "must be UTF-8 text")
    except FileLimitError as claim:
        faults.add(place, claim.found, claim.allowed)
    except DAMAGE as error:
        faults.add(place, f"cannot be read ({error})", "an undamaged array")
    return None


def _read_texts(array: h5py.Dataset) -> AnyArray:
    """Names, one after the other: many entries of variable length may be one long text."""
    texts = []
    for text in (array.asstr("utf-8")[i] for i in range(len(array))):
        if len(text) > NAME_LENGTH or not text.isprintable():
            said = f"the name {quote_text(text, 50)} of {len(text)} characters"
            raise FileLimitError(said, f"at most {NAME_LENGTH}, all printable")
        texts.append(text)
    return np.array(texts, object)


def get_own_group(parent: h5py.Group, name: str, place: str, faults: Faults) -> h5py.Group | None:
    """The group of that name if it lies in this very file; None, and a fault, where not."""
    if is_own(parent, name, place, faults):
        if isinstance(group := parent[name], h5py.Group):
            return group
        faults.add(place, "an array", "a group")
    return None


def get_own_array(parent: h5py.Group, name: str, place: str, faults: Faults) -> h5py.Dataset | None:
    """The array of that name if it lies in this very file, values included; None, and a fault, where not."""
    if is_own(parent, name, place, faults):
        if not isinstance(array := parent[name], h5py.Dataset):
            faults.add(place, "a group", "an array")
        elif array.external or array.is_virtual:
            faults.add(place, "values kept in other files", "data inside this file")
        else:
            return array
    return None


def is_own(parent: h5py.Group, name: str, place: str, faults: Faults) -> bool:
    """Whether the member lies in this very file and is no link to something else; a fault where not."""
    link = parent.get(name, getlink=True)
    if isinstance(link, h5py.HardLink):
        return True
    found = f"a {type(link).__name__} to {link.path}" if link else "a broken entry"
    faults.add(place, found, "data inside this file, not links")
    return False
