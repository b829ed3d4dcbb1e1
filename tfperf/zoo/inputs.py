"""What the data of all models need: scikit-learn's data sets, and one order of the samples for good."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from tfperf.arrays import AnyArray
from tfperf.errors import UserError

ORDER_SEED = (
    2004  # of the order in which loaders return samples: the last ones, which validate, are the same in all runs
)


def import_datasets() -> Any:
    """scikit-learn's data sets. Raises: UserError with the command that installs them where they are missing."""
    try:
        return importlib.import_module("sklearn.datasets")
    except ImportError as error:
        raise UserError(f'scikit-learn cannot be imported ({error}): pip install ".[zoo]"') from None


def reorder_samples(x: AnyArray, y: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Both (N, ...) in one and the same random order, so that any share of them is like the rest."""
    order = np.random.default_rng(ORDER_SEED).permutation(len(x))
    return x[order], y[order]


def find_file(shipped: Path, given: str | None, key: str, allowed: str) -> Path:
    """A file that is given; else the shipped one, of the repository or of the clone in which the command runs.

    key: what the card calls it. Raises: UserError where there is none; it says what is allowed.
    """
    places = [Path(__file__).parents[2] / shipped, shipped] if given is None else [Path(given)]
    for place in places:
        if place.is_file():
            return place
    where = ", ".join(str(place.absolute()) for place in places)
    raise UserError(f"{key}: no such file: {where}; {allowed}")
