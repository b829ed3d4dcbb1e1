"""Measurements by their NNPDF names, as the package nnpdf-data ships them ("commondata"). N points, K systematics.

Source: NNPDF4.0 data, arXiv:2109.02653; the files' format is documented with the package nnpdf-data 4.1.5.
"""

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfperf.arrays import AnyArray, Float64Array, Int64Array
from tfperf.errors import UserError
from tfperf.workloads.pdf.data.fields import suggest_nearest

LARGEST = 1e12  # GeV2; the scales of all experiments so far are below 1e9


@dataclass(frozen=True)
class KinematicCuts:
    """Kinematic cuts of deep-inelastic sets, in GeV2: Q2 > q2_min, W2 = Q2 (1 - x) / x > w2_min.

    For structure functions of charm Q2 > q2_min_charm. Source of the defaults: NNPDF4.0, arXiv:2109.02653, section 4.1.
    """

    q2_min: float = 3.49
    w2_min: float = 12.5
    q2_min_charm: float = 8.0

    def __post_init__(self) -> None:
        """Raises: UserError for limits that are no scale of a collision."""
        given = {"q2_min": self.q2_min, "w2_min": self.w2_min, "q2_min_charm": self.q2_min_charm}
        wrong = [
            f"{name}: got {value!r}; must be a number from 0 to {LARGEST:g}, in GeV2"
            for name, value in given.items()
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST
        ]
        if wrong:
            raise UserError(*wrong)


def import_optional(module: str, package: str) -> Any:
    """An optional module; UserError with the command that installs it where it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(f'the package {package} cannot be imported ({error}): pip install "tfperf[nnpdf]"') from None


def read_metadata(name: str) -> Any:
    """The package's record of `SET_OBSERVABLE` or `SET_OBSERVABLE:VARIANT`; UserError for names it does not have."""
    parser = import_optional("nnpdf_data.commondataparser", "nnpdf-data")
    dataset, _, variant = name.partition(":")
    folder, _, observable = dataset.rpartition("_")
    home = parser.DEFAULT_PATH_VPDATA
    if not folder or not (home / folder / "metadata.yaml").is_file():
        hint = suggest_nearest(folder, (path.name for path in home.iterdir() if path.is_dir()))
        raise UserError(f"{name}: nnpdf-data has no measurements {folder!r}{hint}; wanted SET_OBSERVABLE:VARIANT")
    have = parser.parse_set_metadata(home / folder / "metadata.yaml").allowed_datasets
    if dataset not in have:
        raise UserError(f"{name}: no such observable; allowed: {', '.join(have)}")
    record = parser.parse_new_metadata(home / folder / "metadata.yaml", observable)
    if variant and variant not in record.variants:
        raise UserError(f"{name}: no variant {variant!r}; allowed: {', '.join(record.variants) or 'none'}")
    record = record.apply_variant(variant) if variant else record
    if not record.data_uncertainties and not record.is_nnpdf_special:
        raise UserError(f"{name}: needs a variant, {dataset}:VARIANT; allowed: {', '.join(record.variants)}")
    return record


@dataclass(frozen=True)
class Kinematics:
    """Names and values (N, 2 or 3) of the kinematic variables, x and Q2 first where there are such."""

    columns: tuple[str, ...]
    values: Float64Array


def read_kinematics(record: Any) -> Kinematics:
    """All points of the published set. Reading the files takes seconds for large sets: do it once."""
    table = record.load_kinematics().xs("mid", axis=1, level=1)
    names = sorted(record.kinematic_coverage, key=lambda n: {"x": 0, "Q2": 1}.get(n, 2))
    if len(real := [n for n in names if not n.startswith("extra_")]) > 1:
        names = real
    return Kinematics(tuple(names), table[names].to_numpy(np.float64))


def find_passing_rows(record: Any, kin: Kinematics, cuts: KinematicCuts) -> Int64Array:
    """Rows of the published set that pass the cuts; only deep-inelastic sets are cut."""
    process = str(record.process_type)
    if record.is_nnpdf_special or not process.startswith("DIS"):
        return np.arange(record.ndata)
    if kin.columns[:2] != ("x", "Q2"):
        raise UserError(
            f"{record.name}: its kinematics are {', '.join(kin.columns)}; deep-inelastic sets need x and Q2"
        )
    x, q2 = kin.values[:, 0], kin.values[:, 1]
    q2_min = cuts.q2_min_charm if process.endswith("CHARM") else cuts.q2_min
    return np.flatnonzero((q2 > q2_min) & (q2 * (1 - x) / x > cuts.w2_min))


def read_measurements(record: Any, rows: Int64Array) -> dict[str, AnyArray]:
    """The given rows of a set as the arrays of a pack: cuts, cv, stat, sys, sys_names, sys_is_mult."""
    errors = record.load_uncertainties().iloc[rows]
    statistical = [c for c in errors if c[0].lower() == "stat"]
    systematic = [c for c in errors if c[0].lower() != "stat" and c[2] != "SKIP"]
    return {
        "cuts": rows,
        "cv": record.load_data_central()["data"].to_numpy(np.float64)[rows],
        "stat": errors[statistical].to_numpy(np.float64).sum(axis=1),
        "sys": errors[systematic].to_numpy(np.float64),
        "sys_names": np.array([c[2] for c in systematic], "S"),
        "sys_is_mult": np.array([c[1] == "MULT" for c in systematic], bool),
    }


def read_description(record: Any) -> dict[str, str | int]:
    """What is said of a set: experiment, process, label, variant, number of points, where it was published."""
    references = {k.lower(): getattr(record._parent, k) for k in ("arXiv", "iNSPIRE", "hepdata")}
    return {
        "experiment": record.name.split("_")[0],
        "process": str(record.process_type),
        "label": record.observable["label"],
        "variant": record.applied_variant or "",
        "ndata_total": record.ndata,
        "journal": getattr(references["arxiv"], "journal", None) or "",
        **{name: reference.url if reference else "" for name, reference in references.items()},
    }
