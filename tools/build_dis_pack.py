#!/usr/bin/env python3
"""Build the deep-inelastic data pack data/dis_nlo/dis_nlo.h5 from packages of PyPI alone.

    pip install yadism==0.13.12 eko==0.15.7 nnpdf-data==4.1.5
    OMP_NUM_THREADS=1 python tools/build_dis_pack.py -o dis_nlo.h5      # 12 minutes of one core
    python tools/build_dis_pack.py -o few.h5 --only SLAC,FLL --points 3  # some sets, some points of each

Theory: tools/dis_pack/tables.py and evolution.py. Measurements: nnpdf-data ("commondata"), after the cuts of NNPDF4.0.
Output: the layout of data/README.md. Finished tables are kept in --cache, so that a stopped build goes on.
"""

import argparse
import hashlib
import importlib.metadata
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from dis_pack.evolution import Evolution
from dis_pack.parameters import ACTIVE, ALPHAS, MBOTTOM, MCHARM, Q0, THEORY, X
from dis_pack.tables import Density, Observable, Tables, compute_tables

from tfperf.arrays import Float64Array, Int64Array
from tfperf.workloads.pdf.data.commondata import (
    KinematicCuts,
    find_passing_rows,
    read_description,
    read_kinematics,
    read_measurements,
    read_metadata,
)
from tfperf.workloads.pdf.data.validate import FLAVOURS
from tfperf.workloads.pdf.data.write import Attribute, StoredSet, write_pack

VERSION = 2  # of the theory; a new number makes the cached tables invalid
COLUMNS = ("x", "Q2", "y")
APPROXIMATE = 2  # target-mass corrections, of the fixed-target experiments
NC, HERA_NC = ("EM", "electron"), "XSHERANC_total"
DATASETS = {
    "NMC_NC_NOTFIXED_EM-F2:legacy_dw": Observable("F2_total", *NC, "D/P", target_mass=APPROXIMATE),
    "NMC_NC_NOTFIXED_P_EM-SIGMARED:legacy": Observable("XSHERANCAVG_total", *NC, "P", target_mass=APPROXIMATE),
    "SLAC_NC_NOTFIXED_P_EM-F2:legacy_dw": Observable("F2_total", *NC, "P", target_mass=APPROXIMATE),
    "SLAC_NC_NOTFIXED_D_EM-F2:legacy_dw": Observable("F2_total", *NC, "D", target_mass=APPROXIMATE),
    "BCDMS_NC_NOTFIXED_P_EM-F2:legacy_dw": Observable("F2_total", *NC, "P", target_mass=APPROXIMATE),
    "BCDMS_NC_NOTFIXED_D_EM-F2:legacy_dw": Observable("F2_total", *NC, "D", target_mass=APPROXIMATE),
    "HERA_NC_318GEV_EM-SIGMARED:legacy": Observable(HERA_NC, "NC", "electron", "P"),
    "HERA_NC_225GEV_EP-SIGMARED:legacy": Observable(HERA_NC, "NC", "positron", "P"),
    "HERA_NC_251GEV_EP-SIGMARED:legacy": Observable(HERA_NC, "NC", "positron", "P"),
    "HERA_NC_300GEV_EP-SIGMARED:legacy": Observable(HERA_NC, "NC", "positron", "P"),
    "HERA_NC_318GEV_EP-SIGMARED:legacy": Observable(HERA_NC, "NC", "positron", "P"),
    "HERA_CC_318GEV_EM-SIGMARED:legacy": Observable("XSHERACC_total", "CC", "electron", "P"),
    "HERA_CC_318GEV_EP-SIGMARED:legacy": Observable("XSHERACC_total", "CC", "positron", "P"),
    "HERA_NC_318GEV_EAVG_CHARM-SIGMARED:legacy": Observable("XSHERANCAVG_charm", "NC", "electron", "P"),
    "HERA_NC_318GEV_EAVG_BOTTOM-SIGMARED:legacy": Observable("XSHERANCAVG_bottom", "NC", "electron", "P"),
}
# pseudo-data at Q2 = 5 GeV2 that must come out positive
POSITIVITY: dict[str, Observable | Density] = {
    "NNPDF_POS_2P24GEV_F2U": Observable("F2_light", *NC, "P", charge="up"),
    "NNPDF_POS_2P24GEV_F2D": Observable("F2_light", *NC, "P", charge="down"),
    "NNPDF_POS_2P24GEV_F2S": Observable("F2_light", *NC, "P", charge="strange"),
    "NNPDF_POS_2P24GEV_FLL": Observable("FL_light", *NC, "P", charge="all"),
    "NNPDF_POS_2P24GEV_F2C-17PTS": Observable("F2_charm", *NC, "P"),
    "NNPDF_POS_2P24GEV_XUQ": Density(2),
    "NNPDF_POS_2P24GEV_XUB": Density(-2),
    "NNPDF_POS_2P24GEV_XDQ": Density(1),
    "NNPDF_POS_2P24GEV_XDB": Density(-1),
    "NNPDF_POS_2P24GEV_XSQ": Density(3),
    "NNPDF_POS_2P24GEV_XSB": Density(-3),
    "NNPDF_POS_2P24GEV_XCQ": Density(4),
    "NNPDF_POS_2P24GEV_XGL": Density(21),
}
Theory = TypeVar("Theory", Observable, Observable | Density)
SMALLEST_X = 1e-5  # of the densities: below, no data of this pack constrains them


class SetBuilder:
    """Computes sets one by one; `points` limits each to that many, evenly spread."""

    def __init__(self, cache: Path, points: int | None = None) -> None:
        self.cache, self.points = cache, points
        self.evolution: Evolution | None = None
        self.versions = {p: importlib.metadata.version(p) for p in ("yadism", "eko", "nnpdf-data")}
        cache.mkdir(parents=True, exist_ok=True)

    def build_dataset(self, name: str, observable: Observable) -> StoredSet:
        """Tables and measurements of one set; `sys` in float32 and without columns of zeros, to keep the file small."""
        record = read_metadata(name)
        rows = self._select_rows(find_passing_rows(record, read_kinematics(record), KinematicCuts()))
        arrays = read_measurements(record, rows)
        used = arrays["sys"].any(axis=0)
        arrays |= {k: arrays[k][..., used] for k in ("sys", "sys_names", "sys_is_mult")}
        kin = _read_unrounded(record)[rows]
        arrays |= {"sys": arrays["sys"].astype(np.float32), "kin": kin, "flav": _list_flavours()}
        found = self._load_tables(record.name, observable, kin)
        said: dict[str, Attribute] = {
            **read_description(record), "ndata": len(rows), "observable": observable.name, "target": observable.target,
            "operation": "RATIO" if len(found) == 2 else "NULL",
        }  # fmt: skip
        return StoredSet(record.name, {**found, **arrays}, said, COLUMNS)

    def build_positivity(self, name: str, observable: Observable | Density) -> StoredSet:
        """One positivity set."""
        kin = _read_unrounded(read_metadata(name))
        said: dict[str, Attribute]
        if isinstance(observable, Density):
            kin = kin[kin[:, 0] >= SMALLEST_X]
            said = {"observable": "density", "pid": observable.pid}
        else:
            said = {"observable": observable.name, **({"charge": observable.charge} if observable.charge else {})}
        kin = kin[self._select_rows(np.arange(len(kin)))]
        found = self._load_tables(name, observable, kin)
        return StoredSet(f"positivity/{name}", {**found, "kin": kin, "flav": _list_flavours()}, said, COLUMNS)

    def _select_rows(self, rows: Int64Array) -> Int64Array:
        if self.points is None or self.points >= len(rows):
            return rows
        some: Int64Array = rows[np.linspace(0, len(rows) - 1, self.points).astype(int)]
        return some

    def _load_tables(self, name: str, observable: Observable | Density, kin: Float64Array) -> Tables:
        """From the cache, or computed and put there."""
        start = time.process_time()
        key = repr((VERSION, self.versions, THEORY, X.tolist(), observable, kin.tolist()))
        path = self.cache / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.npz"
        if not path.exists():
            self.evolution = self.evolution or Evolution()
            temporary = path.with_suffix(".tmp.npz")
            np.savez(temporary, **compute_tables(observable, kin, self.evolution))  # type: ignore[arg-type]
            temporary.rename(path)
        with np.load(path) as stored:
            found = dict(stored)
        print(f"{name:38s} {len(kin):4d} points, {time.process_time() - start:6.1f} s", flush=True)
        return found


def _read_unrounded(record: Any) -> Float64Array:
    """x, Q2 [GeV2], y (N, 3) as the theory wants them: x before rounding to the published bin, y = 0 where unused."""
    table = record.load_kinematics(fill_to_three=False).xs("mid", axis=1, level=1)
    y = table["y"] if "y" in table else 0 * table["x"]
    unrounded: Float64Array = np.stack(
        [table["xraw" if "xraw" in table else "x"], table["Q2"], y], axis=1, dtype=np.float64, casting="unsafe"
    )
    return unrounded


def _list_flavours() -> Int64Array:
    return np.array([FLAVOURS.index(f) for f in ACTIVE])


def make_attributes(versions: dict[str, str]) -> dict[str, Attribute]:
    """What the file says of itself."""
    limits = KinematicCuts()
    return {
        "process": "DIS", "order": "NLO", "target_mass": "approximate, fixed-target experiments only",
        "scheme": "FONLL-A with fitted charm, no damping (ZM + FFNS - FFN0)", "Q0": Q0, "alphas_mz": ALPHAS,
        "mc": MCHARM, "mb": MBOTTOM, "q2min": limits.q2_min, "w2min": limits.w2_min, "source": Path(__file__).name,
        "provenance": "PyPI: " + ", ".join(f"{p} {v}" for p, v in versions.items()),
        "theory": json.dumps({k: str(v) for k, v in THEORY.items()}),
    }  # fmt: skip


def build_pack(output: Path, cache: Path, only: list[str], points: int | None = None) -> None:
    """Write the pack of the sets whose names contain one of `only` (all if empty)."""
    builder = SetBuilder(cache, points)

    def select_sets(sets: dict[str, Theory]) -> Iterator[tuple[str, Theory]]:
        return ((n, o) for n, o in sets.items() if not only or any(piece in n for piece in only))

    def build_sets() -> Iterator[StoredSet]:
        yield from (builder.build_dataset(*item) for item in select_sets(DATASETS))
        yield from (builder.build_positivity(*item) for item in select_sets(POSITIVITY))

    write_pack(output, X, make_attributes(builder.versions), build_sets())
    print(f"{output}: {output.stat().st_size / 1e6:.2f} MB")


def main() -> None:
    """Read the command line and build."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path("dis_nlo.h5"))
    parser.add_argument("--cache", type=Path, default=Path(".cache/dis_pack"), help="folder for finished tables")
    parser.add_argument("--only", default="", help="comma-separated pieces of set names")
    parser.add_argument("--points", type=int, help="at most this many points of each set, to try things out")
    options = parser.parse_args()
    build_pack(options.output, options.cache, [p for p in options.only.split(",") if p], options.points)


if __name__ == "__main__":
    main()
