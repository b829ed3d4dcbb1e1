"""Real tables: tfperf's whole step beside the peer's observable layers alone, in turn, each in a process of its own."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import click
import h5py

from benchmarks.peer.process import Record, prepare_peer_python, run_module
from benchmarks.registry import Row, register_benchmark
from tfperf.errors import UserError
from tfperf.workloads.pdf.data.pack import list_sets

REPLICAS, ROUNDS = 100, 3
TOLERANCES = (0.0, 1e-3)
STEPS = {0.0: 70, 1e-3: 350}


@register_benchmark(
    "observables",
    claim="a whole step costs less than what the peer's observable layers alone take for the same real tables",
    sweep=f"R = {REPLICAS}, exact and at tolerance {TOLERANCES[1]:g}; the peer and tfperf in turn, {ROUNDS} rounds",
    unit="peer: training forward and backward and validation forward; tfperf: one optimizer step; ms of wall time",
)
def measure_observables(pack: Sequence[Path]) -> Iterator[Row]:
    """Time both sides on the sets of all packs together.

    Raises: UserError for packs that cannot be joined; SubprocessError when a side fails.
    """
    python = prepare_peer_python()
    with TemporaryDirectory() as folder:
        packs = join_packs(pack, Path(folder) / "packs.h5")
        theirs: list[Record] = []
        ours: dict[float, list[Record]] = {tolerance: [] for tolerance in TOLERANCES}
        for turn in range(ROUNDS):
            theirs.append(run_module(python, "benchmarks.peer.layers_side", str(packs), "--replicas", str(REPLICAS)))
            for tolerance, records in ours.items():
                records.append(run_ours(packs, tolerance))
            times = ", ".join(f"{records[-1]['ms_step'][0]:.4g} ms" for records in ours.values())
            click.echo(f"round {turn + 1} of {ROUNDS}: peer {theirs[-1]['ms_pass'][0]:.4g} ms, tfperf {times}")
    for tolerance, records in ours.items():
        yield make_row(tolerance, theirs, records)


def run_ours(pack: Path, tolerance: float) -> Record:
    """Steps on the pack, as ours.py prints them."""
    arguments = ["--pack", str(pack), "--tolerance", str(tolerance), "--replicas", str(REPLICAS)]
    return run_module(Path(sys.executable), "benchmarks.peer.ours", *arguments, "--steps", str(STEPS[tolerance]))


def join_packs(packs: Sequence[Path], path: Path) -> Path:
    """One pack with the sets of all, which must lie on the same grid. Raises: UserError when they do not."""
    with h5py.File(path, "w") as out:
        for pack in packs:
            try:
                file = h5py.File(pack)
            except OSError as error:
                raise UserError(f"--pack {pack}: must be an HDF5 file: {error}") from None
            with file:
                if "x" not in file:
                    raise UserError(f"--pack {pack}: has no grid x; must be a pack of FK tables")
                names = list_sets(file)
                if "x" not in out:
                    out.attrs.update(file.attrs)
                    file.copy("x", out)
                if file["x"].shape != out["x"].shape or (file["x"][:] != out["x"][:]).any():
                    raise UserError(f"--pack {pack}: its grid is not that of {packs[0]}; must be the same")
                for name in names:
                    if name in out:
                        raise UserError(f"--pack {pack}: set {name} is also in another pack; must be in one of them")
                    file.copy(name, out)
    return path


def make_row(tolerance: float, theirs: Sequence[Record], ours: Sequence[Record]) -> Row:
    """Medians over the rounds."""
    peer = median(r["ms_pass"][0] for r in theirs)
    mine = median(r["ms_step"][0] for r in ours)
    return {
        "tolerance": tolerance, "points": ours[0]["points"], "peer_ms": peer, "tfperf_ms": mine, "ratio": peer / mine,
        "peer_rss_mb": max(r["peak_rss_mb"] for r in theirs), "tfperf_rss_mb": max(r["peak_rss_mb"] for r in ours),
        "tfperf_first_step_s": median(r["first_step_s"] for r in ours),
        "peer": f"nnpdf {theirs[0]['versions']['nnpdf']}",
    }  # fmt: skip
