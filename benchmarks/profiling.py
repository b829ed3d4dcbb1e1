"""How right, how disturbing and how quick a profile is."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.registry import Row, register_benchmark

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution

CARD = Path(__file__).parents[1] / "runcards" / "pdf_dis.yaml"
STEPS, SIZE, SLEEP = 20, 1500, 0.02  # recorded steps; rows of a product, about 50 ms on 2 cores; seconds
REPLICAS, PER_CALL, CALLS, ROUNDS = (100, 200, 400), 30, 15, 4
EVENTS = 1_500_000


@register_benchmark(
    "profile-truth",
    claim="sleeps and products put into each phase are attributed within 5 % of what a clock says",
    sweep="each phase, once with a sleep and once with a matrix product a step",
    unit=f"ms a step, mean over {STEPS} steps; error: attributed over clocked time, less one",
)
def measure_truth() -> Iterator[Row]:
    """Products in an eager program, sleeps in a compiled one; both clocked around each."""
    import tensorflow as tf

    from tfperf.scopes import phase
    from tfperf.trace.phases import PHASES

    names, square = PHASES[:-1], tf.random.stateless_uniform([SIZE, SIZE], [1, 2])
    clocked: dict[str, float] = dict.fromkeys(names, 0.0)

    def clock(name: str, work: Callable[[], object]) -> None:
        start = time.perf_counter()
        work()
        clocked[name] += time.perf_counter() - start

    def run_products() -> None:
        for name in names:
            with phase(name):
                clock(name, lambda: tf.linalg.matmul(square, square))

    @tf.function
    def run_sleeps() -> None:
        for name in names:
            with phase(name):
                tf.numpy_function(partial(clock, name, partial(time.sleep, SLEEP)), [], [])

    for kind, step in (("product", run_products), ("sleep", run_sleeps)):
        clocked.update(dict.fromkeys(names, 0.0))
        found = _attribute_steps(step, lambda: clocked.update(dict.fromkeys(names, 0.0)))
        for name, seconds in clocked.items():
            want, got = 1e3 * seconds / STEPS, float(found.busy["CPU"][:, PHASES.index(name)].mean())
            yield {"work": kind, "phase": name, "clocked": want, "attributed": got, "error": got / want - 1}


def _attribute_steps(step: Callable[[], None], on_begin: Callable[[], None]) -> "Attribution":
    """The attribution of STEPS recorded steps; `on_begin` is called before the first of them."""
    from tfperf.trace.attribution import read_attribution
    from tfperf.trace.capture import capture

    with tempfile.TemporaryDirectory() as folder:
        with capture(folder, STEPS, skip=3) as recording:
            for number in range(STEPS + 3):
                if number == recording.skip:
                    on_begin()
                with recording.step(number):
                    step()
        return read_attribution(Path(folder))


@register_benchmark(
    "profile-overhead",
    claim="how much longer steps take while they are recorded, which a profile says, and takes off",
    sweep=f"the shipped card with R = {', '.join(map(str, REPLICAS))}, {ROUNDS} windows each",
    unit=f"ms a step, medians of {CALLS} calls recorded and {CALLS} before; overhead: recorded over not, less one",
)
def measure_overhead() -> Iterator[Row]:
    """`tfperf profile` of the card, in a process of its own for each R."""
    for replicas in REPLICAS:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tfperf", "profile", str(CARD), "--logdir", folder]
            command += ["--set", f"replicas={replicas}", "--set", f"train.steps_per_call={PER_CALL}"]
            command += [
                "--steps",
                str(PER_CALL * CALLS),
                "--skip",
                str(PER_CALL * (CALLS + 1)),
                "--repeat",
                str(ROUNDS),
            ]
            subprocess.run(command, check=True, capture_output=True)
            calls = [json.loads(p.read_text()) for p in sorted(Path(folder).rglob("tfperf.json"))]
        calls = [call for call in calls if call["unrecorded_ms"]]
        ratios = [call["recorded_ms"] / call["unrecorded_ms"] - 1 for call in calls]
        yield {
            "replicas": replicas, "step_ms": median(call["unrecorded_ms"] for call in calls) / PER_CALL,
            "overhead": median(ratios), "least": min(ratios), "most": max(ratios),
        }  # fmt: skip


READ = """
import resource, sys, time
from pathlib import Path
start = time.perf_counter()
from tfperf.trace.attribution import read_attribution
imported = time.perf_counter()
found = read_attribution(Path(sys.argv[1]))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(time.perf_counter() - imported, imported - start, peak, len(found.steps))
"""


@register_benchmark(
    "profile-reading",
    claim=f"a profile of {EVENTS / 1e6:g} million events is read and attributed in 8 s and 1.1 GB",
    sweep="three times the same profile: steps of 150 operations on two threads, 100 steps a call",
    unit="seconds of reading and attributing, peak memory of the process in GB",
)
def measure_reading() -> Iterator[Row]:
    """A profile as TensorFlow writes it, read in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "vm.xplane.pb")
        file.write_bytes(_make_profile(EVENTS))
        for _ in range(3):
            done = subprocess.run([sys.executable, "-c", READ, folder], check=True, capture_output=True, text=True)
            seconds, imports, peak, steps = map(float, done.stdout.split())
            yield {
                "events": EVENTS, "file_mb": file.stat().st_size / 1e6, "steps": int(steps), "seconds": seconds,
                "imports": imports, "peak_gb": peak / 1e6,
            }  # fmt: skip


def _make_profile(events: int) -> bytes:
    """A profile of so many operations, in calls of 100 steps."""
    from tfperf.trace.planes import load_xplane_proto

    space = load_xplane_proto().XSpace()
    plane = space.planes.add(name="/host:CPU")
    plane.stat_metadata[1].name, plane.stat_metadata[2].name = "step_num", "id"
    names = ["train", *(f"while/dense_{i}/MatMul:MatMul" for i in range(50))]
    names += [f"gradient_tape/while/dense_{i}/MatMul:MatMul" for i in range(50)]
    names += [f"while/adam/Mul_{i}:Mul" for i in range(50)]
    for number, name in enumerate(names):
        plane.event_metadata[number].name = name
    turn, per_call = (len(names) - 1) * 1_000_000, 100  # ps
    calls = events // 150 // per_call
    python = plane.lines.add(name="python")
    for call in range(calls):
        mark = python.events.add(metadata_id=0, offset_ps=call * per_call * turn, duration_ps=per_call * turn)
        mark.stats.add(metadata_id=1, int64_value=call)
    threads = [plane.lines.add(name=f"tf_Compute/{i}") for i in range(2)]
    for row in range(calls * per_call * 150):
        event = threads[row % 2].events.add(metadata_id=1 + row % 150, offset_ps=row * 1_000_000, duration_ps=1_500_000)
        event.stats.add(metadata_id=2, int64_value=row)
    content: bytes = space.SerializeToString()
    return content
