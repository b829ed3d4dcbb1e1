"""Arrays and texts in HDF5 files whose every byte has a checksum, and the reading of such files."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from tfperf.errors import RunDirectoryError
from tfperf.results.state import NO_RUN, Identity

UNITS: Mapping[str, str] = {
    "best_step": "steps", "stop_step": "steps", "step": "steps",
    "chi2_training": "per point", "chi2_validation": "per point", "chi2_experimental": "per point",
    "training": "per point", "validation": "per point", "experimental": "per point",
    "x": "1", "pdf": "1", "positivity": "unit of the predictions", "arc_length": "1",
    "loss": "per label", "validation_loss": "per label", "validation_step": "steps",
    "sigma": "unit of cv", "predictions": "unit of cv", "mean": "unit of cv",
}  # fmt: skip


@contextmanager
def opened(path: Path, kind: str, layout: int) -> Iterator[h5py.File]:
    """A file whose attributes `kind` and `layout` are these.

    Raises: RunDirectoryError where there is none, where it is damaged, or where it is of another kind or layout.
    """
    if not path.is_file():
        raise RunDirectoryError(f"{path}: no such file; a finished run has one")
    try:
        with h5py.File(path, "r") as file:
            found, its_layout = file.attrs.get("kind"), file.attrs.get("layout")
            found = decoded(found)[0] if isinstance(found, np.ndarray) else found
            if found != kind or its_layout != layout:
                given = f"kind {found!r}, layout {its_layout!r}"
                raise RunDirectoryError(f"{path}: got {given}; must be kind {kind!r}, layout {layout}")
            yield file
    # HDF5 has no error class of its own: damage comes out as any of these
    except (OSError, KeyError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise RunDirectoryError(f"{path}: damaged, it cannot be read as the results of a fit ({error})") from error


def put_identity(file: h5py.File, identity: Identity | None) -> None:
    """Note whose results these are."""
    if identity is not None:
        file.attrs.update({"run": encoded(identity.run), "digest": encoded(identity.digest)})


def refuse_others(path: Path, file: h5py.File, identity: Identity | None) -> None:
    """RunDirectoryError for results of another run than that; None: of any. Runs of tfperf 0.1.0 have no identity."""
    if identity is None or identity.run == NO_RUN:
        return
    found = {name: decoded(file.attrs[name])[0] if name in file.attrs else "" for name in ("run", "digest")}
    if Identity(**found) != identity:
        raise RunDirectoryError(f"{path}: holds the results of another run; begin again by --force")


def put_array(group: h5py.Group, name: str, array: NDArray[Any]) -> None:
    """An array as a dataset, large ones compressed."""
    # HDF5 cannot chunk a scalar or an empty array, and compresses a small one to more bytes than it has
    filters: dict[str, Any] = {"fletcher32": True} if array.size else {}
    if array.nbytes > 4096:
        filters |= {"compression": "gzip", "shuffle": True}
    dataset = group.create_dataset(name, data=array, **filters)
    leaf = name.rsplit("/", 1)[-1]
    if leaf in UNITS and not group.name.startswith("/weights"):
        dataset.attrs["unit"] = UNITS[leaf]


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
