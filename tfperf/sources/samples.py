"""Training data in memory: arrays whose first axis is the sample."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import h5py
import keras
import numpy as np

from tfperf.arrays import AnyArray, Indices
from tfperf.errors import UserError

Nest = Any  # an array (N, ...), or a dict, list or tuple of nests


@dataclass(frozen=True)
class Samples:
    """N samples as Keras takes them: `data` is (inputs,), (inputs, targets) or (inputs, targets, weights)."""

    data: tuple[Nest, ...]

    @property
    def arrays(self) -> list[AnyArray]:
        """All arrays (N, ...), in Keras' order."""
        return list(keras.tree.flatten(self.data))

    def __len__(self) -> int:
        return len(self.arrays[0])

    def select(self, rows: Indices | slice) -> "Samples":
        """Some of the samples."""
        return Samples(keras.tree.map_structure(lambda array: array[rows], self.data))


def make_samples(found: Any, what: str) -> Samples:
    """Samples of what a user's function returned: x, (x, y) or (x, y, weights). Raises: UserError for anything else.

    what: who returned it, for messages. Lists of arrays become tuples, as in Keras' own `fit`.
    """
    data = found if isinstance(found, tuple) else (found,)
    while data and data[-1] is None:
        data = data[:-1]
    if not 1 <= len(data) <= 3:
        raise UserError(f"{what}: returned {len(data)} things; must be x, (x, y) or (x, y, sample weights)")
    if None in [part for part in data if part is None]:
        raise UserError(f"{what}: returned None before something else; must be x, (x, y) or (x, y, sample weights)")
    try:
        data = tuple(map(_make_nest, data))
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{what}: returned {error}; must be NumPy arrays, or dicts, lists or tuples of them, or batches: a "
            "tf.data.Dataset, a keras.utils.PyDataset or a DataLoader"
        ) from None
    lengths = [len(array) for array in keras.tree.flatten(data)]
    if not lengths or len(set(lengths)) != 1 or not lengths[0]:
        raise UserError(f"{what}: returned arrays of {lengths} samples; must be as many in each, at least 1")
    return Samples(data)


def _make_nest(value: Any) -> Nest:
    if isinstance(value, dict):
        return {key: _make_nest(one) for key, one in value.items()}
    if isinstance(value, tuple) or (isinstance(value, list) and value and all(map(_is_nest, value))):
        return tuple(map(_make_nest, value))
    return _make_array(value)


def _is_nest(value: Any) -> bool:
    return isinstance(value, dict | tuple) or (hasattr(value, "__array__") and np.ndim(value) > 0)


def _make_array(value: Any) -> AnyArray:
    if not isinstance(value, list) and not hasattr(value, "__array__"):
        raise TypeError(type(value).__name__)
    array = np.asarray(value)
    if array.ndim == 0:
        raise ValueError(f"a single number of type {array.dtype}")
    if array.dtype == object and all(isinstance(one, str | bytes) for one in array.flat):
        array = np.array(array.tolist())  # as tensors of texts, and columns of pandas, are
    if array.dtype.kind not in "biufUS":
        raise ValueError(f"an array of type {array.dtype}")
    return array


def find_not_finite(samples: Samples) -> str | None:
    """Where the data themselves are not finite, in words; None where they are."""
    for name, part in zip(("inputs", "targets", "weights"), samples.data, strict=False):
        for array in keras.tree.flatten(part):
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                rows = np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))
                return (
                    f"data: {name}: {len(rows)} of {len(array)} samples are not finite, the first is number {rows[0]}"
                )
    return None


def read_samples(path: Path, inputs: Sequence[str], targets: Sequence[str], weights: str | None) -> Samples:
    """Samples of the arrays of these names in an .npz or HDF5 file. Raises: UserError for what is not there.

    One input is an array, several are a dict by their names; the same for targets.
    """
    wanted = [*inputs, *targets, *([] if weights is None else [weights])]
    found = _read_arrays(path, wanted)
    parts = [_join(inputs, found), *([_join(targets, found)] if targets else [])]
    return make_samples((*parts, *([] if weights is None else [found[weights]])), str(path))


def _join(names: Sequence[str], found: Mapping[str, AnyArray]) -> Nest:
    return found[names[0]] if len(names) == 1 else {name: found[name] for name in names}


def _read_arrays(path: Path, names: Sequence[str]) -> dict[str, AnyArray]:
    try:
        if path.suffix == ".npz":
            with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
                _refuse_missing(path, names, list(archive))
                return {name: archive[name] for name in names}
        with h5py.File(path) as file:
            there: list[str] = []
            file.visititems(lambda name, item: there.append(name) if isinstance(item, h5py.Dataset) else None)
            _refuse_missing(path, names, there)
            return {name: file[name][()] for name in names}
    except (OSError, ValueError, BadZipFile) as error:
        raise UserError(f"{path}: cannot be read: {error}; must be an .npz file without pickles, or HDF5") from None


def _refuse_missing(path: Path, names: Sequence[str], there: Sequence[str]) -> None:
    if missing := [name for name in names if name not in there]:
        raise UserError(f"{path}: has no array {', '.join(missing)}; it has: {', '.join(there) or 'none'}")
