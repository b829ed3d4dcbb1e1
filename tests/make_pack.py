"""A small deep-inelastic fit problem with every operation, shared systematics and a positivity set."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tfperf.workloads.pdf.data.closure import compute_toy_pdf
from tfperf.workloads.pdf.data.pack import OPERATIONS
from tfperf.workloads.pdf.data.write import StoredSet, write_pack
from tfperf.workloads.pdf.operators.basis import find_fitted_index

X = np.array([*np.geomspace(1e-5, 0.1, 9)[:-1], *np.linspace(0.1, 1, 8)])
FLAVOURS = ["photon", "sigma", "g", "v", "v3", "v8", "v15", "v24", "v35", "t3", "t8", "t15", "t24", "t35"]
ACTIVE = [1, 2, 3, 4, 5, 6, 9, 10, 11]
# name, operation, points, systematics
SETS = (
    ("AAA_F2", "NULL", 24, ("UNCORR", "CORR", "LUMI_A", "NORM")),
    ("BBB_RATIO", "RATIO", 14, ("CORR", "CORR")),
    ("AAA_FL", "NULL", 16, ("LUMI_A", "CORR", "UNCORR")),
    ("CCC_ASY", "ASY", 6, ("UNCORR",)),
    ("CCC_ADD", "ADD", 12, ("NORM", "UNCORR")),
    ("DDD_SMN", "SMN", 12, ()),
    ("EEE_COM", "COM", 11, ("CORR",)),
)


def _table(rng: np.random.Generator, points: int) -> np.ndarray:
    centre = rng.uniform(np.log(2e-5), np.log(0.6), points)
    kernel = np.exp(-0.5 * ((np.log(X)[None] - centre[:, None]) / 0.9) ** 2)
    lead = np.array([1.0, 0.5, 0.2, 0.2, 0.1, 0.1, 0.2, 0.1, 0.1])
    return (kernel[:, :, None] * lead * rng.uniform(0.7, 1.3, (points, len(X), len(ACTIVE)))).astype(np.float32)


def _set(rng: np.random.Generator, name: str, operation: str, points: int, names: tuple[str, ...]) -> StoredSet:
    tables = {t: _table(rng, points) for t in OPERATIONS[operation]}
    if operation == "ASY":  # an asymmetry far from its pole
        tables["fk_a"] *= 3
    if operation == "RATIO":
        tables["fk_den"] = tables["fk_den"][:1]
    active = np.array([find_fitted_index(FLAVOURS[i]) for i in ACTIVE])
    raw = [np.einsum("nxf,fx->n", t, compute_toy_pdf(X)[active]) for t in tables.values()]
    from tfperf.workloads.pdf.operators.observables import combine

    truth = combine(operation, raw)
    size = np.abs(truth)
    cv = truth + 0.02 * size * rng.standard_normal(points)
    arrays = tables | {
        "flav": np.array(ACTIVE), "cv": cv, "stat": 0.02 * size,
        "sys": rng.uniform(0.01, 0.03, (points, len(names))) * size[:, None],
        "sys_names": np.array(names, "S16"), "sys_is_mult": np.arange(len(names)) % 2 == 1,
        "kin": np.stack([rng.uniform(1e-3, 0.8, points), rng.uniform(4, 90, points), np.zeros(points)], 1),
        "cuts": np.arange(points), "t0": truth * 1.01,
    }  # fmt: skip
    return StoredSet(name, arrays, {"operation": operation, "experiment": name[:3]}, ("x", "Q2", "y"))


def make_pack(path: Path, sets: Sequence[tuple[str, str, int, tuple[str, ...]]] = SETS, seed: int = 3) -> Path:
    """Write the pack and return its path."""
    rng = np.random.default_rng(seed)
    groups = [_set(rng, *one) for one in sets]
    positive = {"fk": _table(rng, 5), "flav": np.array(ACTIVE), "kin": np.ones((5, 2))}
    groups.append(StoredSet("positivity/POS", positive))
    write_pack(path, X, {"Q0": 1.65, "provenance": "toy law"}, groups)
    return path


CARD = """\
title: small
seed: 7
replicas: {replicas}
data: {{pack: pack.h5}}
train:
  steps: {steps}
  steps_per_call: 10
  checkpoint_every: 20
engine: {{xla: {xla}, precision: {precision}, form: {form}}}
"""


def make_card(
    folder: Path, replicas: int = 3, steps: int = 60, xla: str = "false", precision: str = "float32",
    form: str = "shared", extra: str = "",
) -> Path:  # fmt: skip
    """Write pack.h5, unless one is there, and card.yaml into the folder; returns the card's path.

    The form is fixed: a measured one could differ between two runs of a card, and with it the bits.
    """
    if not (folder / "pack.h5").exists():
        make_pack(folder / "pack.h5")
    text = CARD.format(replicas=replicas, steps=steps, xla=xla, precision=precision, form=form) + extra
    (folder / "card.yaml").write_text(text)
    return folder / "card.yaml"
