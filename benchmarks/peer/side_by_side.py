"""The peer and tfperf on the same synthetic problems, in turn, each in a process of its own."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import click

from benchmarks.peer.cache import make_problem_file
from benchmarks.peer.problem import SIZES
from benchmarks.peer.process import Record, prepare_peer_python, run_module
from benchmarks.registry import Row, make_ratio_columns, register_benchmark
from tfperf.errors import UserError

REPLICAS = (1, 10, 100)


@dataclass(frozen=True)
class PeerPoint:
    """One point of the sweep: how long each side runs, and how often in turn."""

    problem: str
    replicas: int
    peer_steps: int
    steps: int
    rounds: int

    @property
    def name(self) -> str:
        """As `--only` takes it."""
        return f"{self.problem}:{self.replicas}"


POINTS = (
    PeerPoint("dis", 1, peer_steps=300, steps=5000, rounds=3),
    PeerPoint("dis", 10, peer_steps=200, steps=5000, rounds=3),
    PeerPoint("dis", 100, peer_steps=60, steps=1400, rounds=2),
    PeerPoint("global", 1, peer_steps=60, steps=700, rounds=2),
    PeerPoint("global", 10, peer_steps=20, steps=140, rounds=1),
    PeerPoint("global", 100, peer_steps=8, steps=42, rounds=1),
)


@register_benchmark(
    "peer",
    claim="a step costs less than the peer's on the same problem: training, validation, stopping, best weights",
    sweep=f"problems {', '.join(SIZES)} x replicas R = {', '.join(map(str, REPLICAS))}; the peer and tfperf in turn",
    unit="one optimizer step, ms of wall time and of processor time; ratios peer / tfperf; compilation apart",
)
def measure_peer(only: str | None = None, rounds: int | None = None) -> Iterator[Row]:
    """Time both sides at each point; `only`: points such as `dis` or `dis:10,global:1`; `rounds`: of each.

    Raises: UserError when `only` names no point; SubprocessError when a side fails.
    """
    points = select_points(only)
    python = prepare_peer_python()
    for point in points:
        peers, ours = [], []
        for turn in range(total := rounds or point.rounds):
            peers.append(run_peer(python, point))
            ours.append(run_ours(point))
            times = f"peer {peers[-1]['ms_step'][0]:.4g} ms, tfperf {ours[-1]['ms_step'][0]:.4g} ms"
            click.echo(f"{point.name}, round {turn + 1} of {total}: {times}")
        yield make_row(point, peers, ours)


def select_points(only: str | None) -> Sequence[PeerPoint]:
    """The points that `only` names, all without it. Raises: UserError when one of its parts names none."""
    if only is None:
        return POINTS
    parts = [part.strip() for part in only.split(",")]
    for part in parts:
        if not any(part in (p.problem, p.name) for p in POINTS):
            allowed = ", ".join([*SIZES, *(p.name for p in POINTS)])
            raise UserError(f"--only: got {part!r}; must be some of {allowed}, separated by commas")
    return [p for p in POINTS if p.problem in parts or p.name in parts]


def run_peer(python: Path, point: PeerPoint) -> Record:
    """One fit of the peer, as n3fit_side.py prints it."""
    arguments = ["--problem", str(make_problem_file(point.problem)), "--replicas", str(point.replicas)]
    return run_module(python, "benchmarks.peer.n3fit_side", *arguments, "--steps", str(point.peer_steps))


def run_ours(point: PeerPoint) -> Record:
    """One fit of tfperf, as ours.py prints it."""
    arguments = ["--size", point.problem, "--replicas", str(point.replicas), "--steps", str(point.steps)]
    return run_module(Path(sys.executable), "benchmarks.peer.ours", *arguments)


def make_row(point: PeerPoint, peers: Sequence[Record], ours: Sequence[Record]) -> Row:
    """Medians over the rounds; of a step, of the rounds' own medians; of memory, the largest peak.

    ratio: geometric mean of the rounds', and its 95 % interval.
    """

    def compute_middle(records: Sequence[Record], key: str) -> float:
        values = [r[key][0] if isinstance(r[key], list) else r[key] for r in records]
        return float(max(values) if key == "peak_rss_mb" else median(values))

    measured: Row = {"problem": point.problem, "replicas": point.replicas}
    for label, key in (("ms", "ms_step"), ("cpu_ms", "cpu_ms_step")):
        measured |= {f"peer_{label}": compute_middle(peers, key), f"tfperf_{label}": compute_middle(ours, key)}
        sides = ([compute_middle([one], key) for one in side] for side in (peers, ours))
        measured |= make_ratio_columns(f"ratio_{label}", *sides)
    for key in ("peak_rss_mb", "first_step_s"):
        measured |= {f"peer_{key}": compute_middle(peers, key), f"tfperf_{key}": compute_middle(ours, key)}
    versions = peers[0]["versions"]
    return measured | {"rounds": len(peers), "peer": f"nnpdf {versions['nnpdf']}, tensorflow {versions['tensorflow']}"}
