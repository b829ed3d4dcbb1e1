"""What `tfperf input` says of twelve trainings with one planted fault each, and of twins without it."""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchmarks.registry import Row, register_benchmark

PROGRAMS = Path(__file__).with_name("input_programs.py")
LARGE = {"layers": 6, "units": 3000}  # a model that needs many times the CPU time of any of the batches


@dataclass(frozen=True)
class PlantedProgram:
    """A function of input_programs.py, and what is to be said of it."""

    load: str
    bound: str | None  # None: not checked, since what is planted is no matter of time
    kinds: frozenset[str] = frozenset()
    cap: str | None = None  # what keeps more workers from being faster; None: not checked
    data: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)


INPUT, COMPUTE = "input-bound", "compute-bound"
PLANTED = {
    "no prefetch": PlantedProgram("load_late", INPUT, frozenset({"no_prefetch", "sequential_map"})),
    "sequential map": PlantedProgram("load_late", INPUT, frozenset({"sequential_map"}), data={"injects": True}),
    "Python map": PlantedProgram("load_python", INPUT, frozenset({"python_in_map"}), "shared"),
    "waiting": PlantedProgram("load_waiting", INPUT, frozenset({"thread_pool_limits"}), "workers"),
    "decode-bound": PlantedProgram("load_decoded", INPUT, frozenset(), "cores"),
    "disk-bound": PlantedProgram("load_from_disk", INPUT, frozenset(), "shared"),
    "small shuffle": PlantedProgram("load_shuffled", INPUT, frozenset({"small_shuffle"})),
    "cache after augmentation": PlantedProgram("load_cached", None, frozenset({"cache_after_random"})),
    "batch after map": PlantedProgram("load_small", INPUT, frozenset({"batch_after_map"})),
    "generator": PlantedProgram("load_generator", INPUT, frozenset({"python_generator"})),
    "PyDataset, one worker": PlantedProgram("load_batches", INPUT, frozenset({"one_worker"})),
    "compute-bound": PlantedProgram("load_parallel", COMPUTE, model=LARGE),
}
TWINS = {
    "no prefetch": PlantedProgram("load_parallel", INPUT),
    "waiting, eight calls": PlantedProgram(
        "load_waiting", INPUT, frozenset({"few_parallel_calls"}), data={"threads": 8}
    ),
    "small shuffle": PlantedProgram("load_shuffled", INPUT, data={"buffer": 4000}),
    "cache after augmentation": PlantedProgram("load_cached", COMPUTE, data={"late": False}, model=LARGE),
    "batch after map": PlantedProgram("load_small", COMPUTE, data={"batch_first": True}, model=LARGE),
    "PyDataset, four workers": PlantedProgram("load_batches", INPUT, data={"workers": 4}),
}


def make_tree(program: PlantedProgram, title: str) -> dict[str, Any]:
    """Its card."""
    return {
        "workload": "keras", "title": title, "engine": {"xla": False}, "train": {"epochs": 2},
        "model": {"build": f"{PROGRAMS}:build_model", "arguments": dict(program.model)},
        "data": {"build": f"{PROGRAMS}:{program.load}", "arguments": dict(program.data)},
    }  # fmt: skip


def check_report(program: PlantedProgram, report: Mapping[str, Any]) -> list[str]:
    """What is wrong with a verdict, empty: nothing."""
    from tfperf.report.input_verdict import name_bound

    bound = name_bound(report["bound"])
    kinds = {one["kind"] for one in report["as_it_is"]["source"]["problems"]}
    wrong = [] if program.bound in (None, bound) else [f"bound: {bound} in place of {program.bound}"]
    wrong += [f"missed {kind}" for kind in sorted(program.kinds - kinds)]
    wrong += [f"invented {kind}" for kind in sorted(kinds - program.kinds)]
    if program.cap is not None:
        caps = [one["cap"] for one in report["workers"]["predicted"]]
        if caps[-1] != program.cap:
            wrong.append(f"limited by {caps[-1]} in place of {program.cap}")
    return wrong


@register_benchmark(
    "input-verdicts",
    claim="tfperf input names what is planted in the input of a training, and nothing in its twin",
    sweep="twelve programs and six twins",
    unit="one study each, without a sweep",
)
def measure_verdicts(seconds: float = 6.0, folder: Path | None = None) -> Iterator[Row]:
    """A row for each program; `wrong` is empty where the verdict is right."""
    from tfperf.study.input import run_input_study
    from tfperf.workloads.cards import load_checked_card

    folder = Path(tempfile.mkdtemp(prefix="tfperf-")) if folder is None else folder
    for kind, programs in (("planted", PLANTED), ("twin", TWINS)):
        for name, program in programs.items():
            place = folder / f"{kind} {name}".replace(" ", "_").replace(",", "")
            place.mkdir(parents=True, exist_ok=True)
            path = place.with_suffix(".yaml")
            path.write_text(yaml.safe_dump(make_tree(program, f"{kind}: {name}")), encoding="utf-8")
            report = run_input_study(load_checked_card(path, ()), place, lambda *_: None, seconds=seconds)
            wrong = check_report(program, report)
            yield {"program": name, "is": kind, "wrong": "; ".join(wrong), "verdict": report["lines"][0]}
