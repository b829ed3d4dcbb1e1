"""A sha256 over what a run has found: all arrays of its results.h5, with names, types and shapes, but without times.

    python tools/digest_results.py RUN...

Two versions that give the same digest for the same card, on the same machine, compute the same to the bit.
"""

import hashlib
import sys
from pathlib import Path

import h5py
import numpy as np

LEFT_OUT = ("summary",)  # has times


def digest_results(path: Path) -> str:
    """Of all datasets of an HDF5 file, in the order of their names."""
    total = hashlib.sha256()
    found: dict[str, h5py.Dataset] = {}
    with h5py.File(path, "r") as file:
        file.visititems(lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None)
        for name in sorted(name for name in found if name not in LEFT_OUT):
            values = np.ascontiguousarray(found[name][()])
            total.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
            total.update(values.tobytes())
    return total.hexdigest()


if __name__ == "__main__":
    for run in sys.argv[1:]:
        print(f"{digest_results(Path(run) / 'results.h5')}  {run}")
