"""A small good pack with every kind of set, for tests that break it."""

from pathlib import Path

import numpy as np
import pytest

from tfperf.errors import PackError
from tfperf.workloads.pdf.data.validate import validate
from tfperf.workloads.pdf.data.write import StoredSet, write_pack

X = np.array([1e-4, 1e-2, 0.1, 0.5, 1.0])
ATTRIBUTES: dict[str, str | float] = {"Q0": 1.65, "provenance": "made for a test"}


def measured(rng, points, systematics=3):
    """Fields that do not depend on the kind of table."""
    return {
        "cv": rng.uniform(1, 2, points),
        "stat": rng.uniform(0.1, 0.2, points),
        "sys": rng.normal(size=(points, systematics)).astype(np.float32),
        "sys_names": np.array(["UNCORR", "CORR", *(f"LUMI{k}" for k in range(systematics))][:systematics], "S8"),
        "sys_is_mult": np.arange(systematics) % 2 == 0,
        "cuts": np.arange(points) * 2 + 1,
    }


def kinematics(rng, points):
    return np.stack([rng.uniform(0.01, 0.9, points), rng.uniform(4, 90, points), np.zeros(points)], 1)


def groups(seed=0):
    """NULL and RATIO (denominator of one row) with one PDF, ASY with two, positivity sets of both kinds."""
    rng = np.random.default_rng(seed)
    flav, channels = np.array([1, 2, 9]), np.array([[1, 1], [1, 2]])
    dis, pair = (4, len(X), 3), (3, 2, len(X), len(X))
    yield StoredSet(
        "TOY_F2",
        measured(rng, 4)
        | {"fk": rng.normal(size=dis), "flav": flav, "kin": kinematics(rng, 4), "t0": rng.uniform(1, 2, 4)},
        {"operation": "NULL", "experiment": "TOY", "process": "DIS_NC", "label": "toy $F_2$"},
        ("x", "Q2", "y"),
    )
    den = rng.uniform(1, 2, (1, *dis[1:])).astype(np.float32)
    yield StoredSet(
        "TOY_DP",
        measured(rng, 4) | {"fk_num": rng.normal(size=dis), "fk_den": den, "flav": flav, "kin": kinematics(rng, 4)},
        {"operation": "RATIO"},
        ("x", "Q2", "y"),
    )
    yield StoredSet(
        "TOY_PP",
        measured(rng, 3, 0)
        | {"fk_a": rng.normal(size=pair), "fk_b": rng.normal(size=pair), "channels": channels, "kin": np.ones((3, 2))},
        {"operation": "ASY"},
    )
    yield StoredSet("positivity/TOY_POS", {"fk": rng.normal(size=dis), "flav": flav, "kin": np.ones((4, 2))})
    yield StoredSet("positivity/TOY_POS_PP", {"fk": rng.normal(size=pair), "channels": channels})


def write_good(path: Path) -> Path:
    """The pack as a file."""
    write_pack(path, X, ATTRIBUTES, groups())
    return path


def faults(path):
    """What the validator has to say of a faulty pack."""
    with pytest.raises(PackError) as caught:
        validate(path)
    return list(caught.value.faults)


def replace(file, place, values):
    """Other values in the place of an array, which keeps its attributes."""
    attributes = dict(file[place].attrs)
    del file[place]
    file[place] = values
    file[place].attrs.update(attributes)
