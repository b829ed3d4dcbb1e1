"""tfperf on the peer's problems, as a process of its own: `python -m benchmarks.peer.ours --size dis --replicas 10`.

With `--turns` it compiles its programs and waits: for each line that it reads it takes the same steps again and prints
their times, so that two versions take turns within a second.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import mean, quantiles
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from benchmarks.peer.cache import load_problem
from tfperf.arrays import AnyArray, Float32Array
from tfperf.measure.environment import measure_peak_rss_bytes
from tfperf.measure.roofline import Precision
from tfperf.workloads.pdf.card import Card, Data, Engine, Integrability, Optimizer, Positivity, Stopping, Train
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.data.covariance import CovarianceMatrix, make_slices
from tfperf.workloads.pdf.data.pack import Dataset, Pack, PositivitySet, Table
from tfperf.workloads.pdf.data.selection import select
from tfperf.workloads.pdf.data.validate import FLAVOURS
from tfperf.workloads.pdf.forms import Chi2Form, build_form
from tfperf.workloads.pdf.operators.observables import compile_observables
from tfperf.workloads.pdf.operators.problem import Problem, build_problem
from tfperf.workloads.pdf.operators.woodbury import find_components, join_components

if TYPE_CHECKING:  # imports TensorFlow, which is told its threads first
    from tfperf.train.ensemble import Ensemble

ROUNDS = 7
CARD = Path(__file__).parents[2] / "runcards" / "pdf_dis.yaml"
EXCLUDED = ("HERA_NC_318GEV_EAVG_BOTTOM-SIGMARED",)
PEER_OPTIMIZER = "{name: Nadam, learning_rate: 2.621e-3, clipnorm: 6.073e-6}"


def make_card(size: str, replicas: int, steps: int = 17000, precision: Precision = "float32") -> Card:
    """The peer's settings; penalties only where the problem has them."""
    penalties = size == "global"
    return Card(
        replicas=tuple(range(1, replicas + 1)), data=Data(pack=Path("none"), t0="none"),
        positivity=Positivity(sets="all" if penalties else "none"),
        integrability=Integrability(nodes=1 if penalties else 0),
        train=Train(
            steps=steps, stopping=Stopping(patience=steps),  # nobody stops while the clock runs
            optimizer=Optimizer(name="Nadam", learning_rate=2.621e-3, clipnorm=6.073e-6),
        ),
        engine=Engine(xla=True, precision=precision),
    )  # fmt: skip


def make_table(values: Float32Array, kind: str, basis: list[int]) -> Table:
    """A table of the problem: DIS (n, F, x), DY (n, pairs, x, z) with y = sum fk[n, F, x, z] f_b(x) f_a(z)."""
    if kind == "DIS":
        return Table(lambda: values.transpose(0, 2, 1), len(values), tuple((FLAVOURS[b],) for b in basis))
    return Table(lambda: values, len(values), tuple((FLAVOURS[b // 14], FLAVOURS[b % 14]) for b in basis))


def _make_datasets(problem: dict[str, Any]) -> list[tuple[Dataset, int]]:
    """Datasets, and the experiment of each."""
    out = []
    for number, experiment in enumerate(problem["meta"]["experiments"]):
        begin = 0
        for d in experiment["datasets"]:
            rows = slice(begin, begin := begin + d["ndata"])
            one = {k: problem[f"exp/{experiment['name']}/{k}"][rows] for k in ("data0", "stat", "sys")}
            fk = make_table(problem[f"fk/{d['name']}"], d["kind"], d["basis"])
            none = np.zeros((d["ndata"], 0))
            out.append((Dataset(
                name=d["name"], operation="NULL", tables=(fk,), cv=one["data0"], stat=one["stat"], sys=one["sys"],
                sys_names=("a", "b", "c"), sys_is_mult=np.zeros(3, bool),
                kin=none, kin_names=(), cuts=np.arange(d["ndata"]), t0=None,
            ), number))  # fmt: skip
    return out


def build_peer_problem(size: str, replicas: int) -> Problem:
    """The fit problem with the peer's own data, masks and covariances."""
    problem = load_problem(size)
    experiments = problem["meta"]["experiments"]
    pairs = _make_datasets(problem)
    datasets = tuple(d for d, _ in pairs)
    positivity = tuple(
        PositivitySet(p["name"], make_table(problem[f"fk/{p['name']}"], p["kind"], p["basis"]))
        for p in problem["meta"]["penalties"] if not p["integrability"]
    )  # fmt: skip
    x = problem["xgrid"]
    pack = Pack(Path("none"), x, 1.65, datasets, positivity)
    columns = np.zeros((sum(len(d.cv) for d in datasets), 3 * len(experiments)))
    begin = 0
    for d, number in pairs:
        columns[begin : begin + len(d.cv), 3 * number : 3 * number + 3] = d.sys
        begin += len(d.cv)

    def join_experiments(key: str) -> AnyArray:
        return np.concatenate([problem[f"exp/{e['name']}/{key}"] for e in experiments], axis=-1)

    covariance = CovarianceMatrix(join_experiments("stat") ** 2, columns)
    components = join_components(columns, make_slices(datasets), find_components(columns, make_slices(datasets)))
    observables = compile_observables(datasets, positivity, int((x < 1).sum()), components)
    return Problem(
        pack=pack, datasets=datasets, observables=observables, blocks=tuple(map(tuple, components)),
        covariance=covariance, covariance_no_t0=covariance, truth=None, ids=tuple(range(1, replicas + 1)),
        data=join_experiments("data")[:replicas], training=join_experiments("trmask")[:replicas].astype(bool),
        root_weight=np.ones(len(columns)),
    )  # fmt: skip


def build_from_size(size: str, replicas: int) -> tuple[Card, Problem, Chi2Form]:
    """The peer's problem of that size, every point on its own."""
    return make_card(size, replicas), build_peer_problem(size, replicas), Chi2Form()


def build_from_pack(pack: Path, replicas: int, tolerance: float) -> tuple[Card, Problem, Chi2Form]:
    """The fit of all sets of a pack, but for the shipped card's excluded ones, in the peer's settings."""
    with h5py.File(pack) as file:
        excluded = [name for name in EXCLUDED if name in file]
    settings = load_card(CARD, [
        f"replicas={replicas}", f"data.pack={pack.resolve()}", f"data.exclude=[{', '.join(excluded)}]", "data.t0=none",
        "positivity.sets=none", f"train.optimizer={PEER_OPTIMIZER}", f"engine.tolerance={tolerance}",
    ])  # fmt: skip
    problem = build_problem(settings, select(settings), settings.replicas)
    return settings, problem, build_form(settings, problem, "folded") if tolerance else Chi2Form()


def measure_steps(build: Callable[[], tuple[Card, Problem, Chi2Form]], steps: int) -> dict[str, Any]:
    """Build, compile and time steps of the whole loop."""
    start = time.perf_counter()
    card, problem, form = build()
    built = time.perf_counter()
    ensemble = _build_ensemble(card, problem, form)
    first = time.perf_counter()
    each = max(1, steps // ROUNDS)
    times, cpu = zip(*(_time_steps(ensemble, each) for _ in range(ROUNDS)), strict=True)
    q1, middle, q3 = quantiles(times, n=4, method="inclusive")
    return {
        "points": len(problem.central), "replicas": len(card.replicas), "ms_step": [middle, q1, q3],
        "cpu_ms_step": mean(cpu), "build_s": built - start, "first_step_s": first - built, "n_steps": ROUNDS * each,
        "stacks": len(ensemble.shards), "peak_rss_mb": measure_peak_rss_bytes() / 2**20,
    }  # fmt: skip


def take_turns(build: Callable[[], tuple[Card, Problem, Chi2Form]], steps: int) -> None:
    """For each line of standard input the same `steps` steps, and a line with their `ms_step` and `cpu_ms_step`."""
    ensemble = _build_ensemble(*build())
    begin = [(loop, loop.snapshot()) for loop in ensemble.build_loops()]
    for _ in sys.stdin:
        for loop, state in begin:
            loop.restore(state)
        ms, cpu_ms = _time_steps(ensemble, steps)
        print(json.dumps({"ms_step": ms, "cpu_ms_step": cpu_ms}), flush=True)


def _build_ensemble(card: Card, problem: Problem, form: Chi2Form) -> "Ensemble":
    """Of the threads that a fit would choose; its programs are compiled."""
    from tfperf.workloads.pdf.stack import build_ensemble
    from tfperf.workloads.pdf.training import choose_cores, start_tensorflow

    # as many stacks at the same time as TensorFlow has threads
    ensemble = build_ensemble(card, problem, form, start_tensorflow(card, choose_cores(card, problem)))
    ensemble.run(1, xla=True)
    _ = ensemble.step  # waits for the call
    return ensemble


def _time_steps(ensemble: "Ensemble", steps: int) -> tuple[float, float]:
    """Wall and processor time of one of so many steps, ms."""
    begin, cpu = time.perf_counter(), time.process_time()
    ensemble.run(steps, xla=True)
    _ = ensemble.step
    times = (time.perf_counter() - begin, time.process_time() - cpu)
    if ensemble.count_running() < ensemble.replicas:
        raise SystemExit("a replica has stopped: take fewer steps")
    return 1e3 * times[0] / steps, 1e3 * times[1] / steps


def main() -> None:
    """Measure and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=["dis", "global"], default="dis")
    parser.add_argument("--pack", type=Path, help="a pack of real tables in place of a size")
    parser.add_argument("--tolerance", type=float, default=0.0, help="engine.tolerance, for a pack")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--turns", action="store_true", help="so many steps for each line that is read")
    given = parser.parse_args()
    make = partial(build_from_size, given.size, given.replicas)
    if given.pack is not None:
        make = partial(build_from_pack, given.pack, given.replicas, given.tolerance)
    if given.turns:
        take_turns(make, given.steps)
    else:
        print(json.dumps(measure_steps(make, given.steps)))


if __name__ == "__main__":
    main()
