"""What checkpoints and results.h5 give back as it was."""

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from tfperf.arrays import AnyArray, ArraysByName

APART = "|"  # what checkpoints write for a slash in a name


def check_snapshot(snapshot: ArraysByName) -> Iterator[str]:
    """Names and types of arrays that files do not give back."""
    for name, value in snapshot.items():
        yield from check_name(name, snapshot)
        yield from check_type(name, value.dtype)


def check_name(name: str, others: Collection[str] = ()) -> Iterator[str]:
    """Of a name, beside others."""
    parts = all(part.strip(".") for part in name.split("/"))
    if not parts or APART in name or "\0" in name or any(other.startswith(f"{name}/") for other in others):
        said = f"must be parts between single slashes, without {APART}, and no folder of others"
        yield f"got the name {name!r}; {said}"


def check_type(name: str, dtype: Any) -> Iterator[str]:
    """Of a NumPy type."""
    if np.dtype(dtype).kind not in "biufc":
        yield f"{name}: got {dtype}; must be of NumPy's own numbers or booleans"


def to_file_type(value: AnyArray) -> AnyArray:
    """The array in one of NumPy's own types; those of less than 32 bits that NumPy lacks are exact in float32."""
    array = np.asarray(value)
    return array if array.dtype.kind in "biufc" else array.astype(np.float32)
