"""`tfperf input`: whether the model waits for its data, how many workers would deliver enough, what is in their way.

What is predicted is in input.json before the sweep that checks it begins.
"""

import math
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tfperf.errors import CardError, RunDirectoryError, Stopped, TrainingError
from tfperf.inputs.calibration import MeasuredLoader, fit_loader
from tfperf.inputs.chain import LoaderLimits, find_knee
from tfperf.inputs.free_cores import measure_free_cores
from tfperf.measure.environment import collect_environment, count_cores
from tfperf.report.input import conclude
from tfperf.report.input_page import render_input
from tfperf.report.input_stages import list_fixed_rates, list_stage_rows
from tfperf.report.sections import write_text
from tfperf.report.study_progress import ShowCount
from tfperf.results.contents import PAGE
from tfperf.results.lock import DirectoryLock
from tfperf.results.rundir import has_run
from tfperf.runcard.dump import to_json_tree
from tfperf.runcard.keys import Tree
from tfperf.runcard.kinds import AnyCard
from tfperf.signals import Signals
from tfperf.study.applied_card import write_applied_card
from tfperf.study.child import Record, run_subprocess
from tfperf.study.input_apply import Effort, InputSearch
from tfperf.study.memory import hash_named_files
from tfperf.study.trial_log import ENVIRONMENT, TrialLog, make_card_identity, write
from tfperf.workloads.registry import WORKLOADS

COMMAND = (sys.executable, "-m", "tfperf.study.input_trial")
INPUT_FILE = "input.json"
MOST_WORKERS = 8  # that rates are predicted for, or twice the cores
AS_IT_IS, AGAIN, APPLY = "as it is", ", again", "apply: "  # in names of trials
TURN_SECONDS = 2.0  # of a candidate of --apply
REPEATS = 2  # of each number of workers in a sweep


@dataclass(kw_only=True)
class InputAsker:
    """Asks fresh processes for trials; what the log has already is not measured again."""

    tree: Tree
    log: TrialLog
    signals: Signals
    show: ShowCount
    seconds: float
    timeout: float
    command: Sequence[str]
    count: int  # of all trials
    report: Mapping[str, Any] = field(default_factory=dict)  # so far; it stays on the disk while trials go on

    def get(self, key: str, workers: int | None) -> Record:
        """The record of a trial. Raises: CardError for what cannot be measured, TrainingError for a fault, Stopped."""
        if key not in self.log.trials:
            self.show(len(self.log.trials), self.count, key)
        return self.ask(key, {"card": self.tree, "seconds": self.seconds, "workers": workers})

    def ask(self, key: str, request: Mapping[str, Any]) -> Record:
        """The same of any request."""
        if key not in self.log.trials:
            self.log.trials[key] = self._run(key, request)
            self.log.save(self.report)
        return self.log.trials[key]

    def _run(self, key: str, request: Mapping[str, Any]) -> Record:
        record = run_subprocess(self.command, request, lambda: self.signals.received is not None, self.timeout)
        if record is None:
            assert self.signals.received is not None
            raise Stopped(self.signals.received)
        if "refused" in record:
            raise CardError(*record["refused"])
        if "error" in record:
            raise TrainingError(f"input: {describe_trial(key)}: {record['error']}")
        return record


def describe_trial(key: str) -> str:
    """What a trial of that name measures."""
    if key.startswith(APPLY):
        return key
    return "the card as it is" if key == AS_IT_IS else f"its data by {key}"


def run_input_study(
    card: AnyCard, output: Path, show: ShowCount, *, sweep: bool = False, apply: bool = False, seconds: float = 10.0,
    timeout: float = 600.0, most: int | None = None, command: Sequence[str] = COMMAND,
    measure_cores: Callable[[], Any] = measure_free_cores,
) -> dict[str, Any]:  # fmt: skip
    """Measure a card's input, predict rates of other numbers of workers, write input.json and report.html; the report.

    most: workers that rates are predicted for. sweep: measure them, too. apply: try settings, and write a card with
    those that win. seconds: of each measurement. What the folder has already is not measured again.
    Raises: CardError for a faulty card or one that cannot be measured, TrainingError where a trial fails,
    RunDirectoryError for the folder, Stopped when a signal came: what was measured until then is kept.
    """
    workload = WORKLOADS.get_offering("input", card.workload)
    workload.refuse_study(card, "input")
    if has_run(output):
        raise RunDirectoryError(f"{output}: holds a run; choose another folder for an input study")
    most = most or max(MOST_WORKERS, 2 * count_cores())
    with Signals().listen() as signals, DirectoryLock(output) as held, signals.defer():
        files = {**hash_named_files(card, workload.kind), **workload.hash_files(card)}
        # what was measured for another time has other intervals: a folder is of one
        identity = make_card_identity(card, {}) | {"files": files, "seconds": seconds}
        log = TrialLog(held.path, identity, INPUT_FILE)
        log.load()
        write(held.path / ENVIRONMENT, collect_environment())
        asker = InputAsker(
            tree=to_json_tree(card), log=log, signals=signals, show=show, seconds=seconds, timeout=timeout,
            command=command, count=5 + (REPEATS * most if sweep else 0),
        )  # fmt: skip
        try:
            found = asker.get(AS_IT_IS, None)
        except CardError:
            (held.path / ENVIRONMENT).unlink()
            held.discard()  # a card that no trial can measure leaves nothing
            raise
        cores = {"cores": count_cores(), "free_cores": measure_once(found, measure_cores)}
        report: dict[str, Any] = {"title": card.title, **cores, "as_it_is": found, "workers": None}
        if found["source"]["has_workers"]:
            report["workers"] = predict_workers(asker, found, most, measure_cores)
            is_shared = report["workers"]["costs"]["shared_seconds"] > 0
            found["source"]["problems"] = drop_refuted_problems(found["source"]["problems"], is_shared)
            if sweep or _is_swept(log, most):
                _write(log, report)  # before what checks it
                asker.report = report
                report["workers"]["sweep"] = _sweep(asker, most)
        if apply or any(key.startswith(APPLY) for key in log.trials):  # an earlier command has, or has begun to
            _write(log, report)
            report["applied"] = _apply(asker, card, found, held.path)
        _write(log, report)
    return report


def _apply(asker: InputAsker, card: AnyCard, found: Record, folder: Path) -> dict[str, Any]:
    """What wins beyond chance, and the card that has it."""
    search = InputSearch(
        tree=asker.tree, ask=asker.ask, show=asker.show, cores=count_cores(), source=found["source"],
        effort=Effort(seconds=min(TURN_SECONDS, asker.seconds)),
    )  # fmt: skip
    applied = search.run(1 / found["model"]["rate"]["value"])
    return applied | {"card": write_applied_card(card, applied, folder)}


def _write(log: TrialLog, report: dict[str, Any]) -> None:
    """What is known now, with what follows from it, as input.json and as a page."""
    conclude(report)
    log.save(report)
    write_text(log.folder / PAGE, render_input(report))


def measure_once(found: Record, measure_cores: Callable[[], Any]) -> float:
    """Free cores of the minutes of a trial, kept in its record, since those of later ones would be others."""
    if "free_cores" not in found:
        found["free_cores"] = measure_cores().cores.value
    return float(found["free_cores"])


def predict_workers(asker: InputAsker, found: Record, most: int, measure_cores: Callable[[], Any]) -> dict[str, Any]:
    """Rates of 1, 2, ... workers from two that are measured, alone and beside the step."""
    ends = (1, max(count_cores(), 2))
    found_at: dict[int, list[Record]] = {workers: [] for workers in ends}
    for again, workers in (("", ends[0]), ("", ends[1]), (AGAIN, ends[1]), (AGAIN, ends[0])):
        key = f"{workers} workers{again}"
        known = asker.log.trials.get(key, {}).get("free_cores")
        cores_now = measure_cores().cores.value if known is None else known
        record = asker.get(key, workers)
        record["free_cores"] = cores_now  # of its minutes: later ones would predict something else
        found_at[workers].append(record)
    free = [record["free_cores"] for records in found_at.values() for record in records]
    measured = [_average(workers, records) for workers, records in found_at.items()]
    ram = [(workers, records[0].get("ram")) for workers, records in found_at.items()]
    # cores that were used were free, whatever was measured a moment before
    used = max(found[side]["processor_seconds"] * found[side]["rate"]["value"] for side in ("data", "both"))
    free_cores = max(sum(free) / len(free), used)
    one, many = measured
    model = fit_loader(one, many, free_cores)
    # noise of a stage's time is no reason to expect less than was measured
    fixed = min((most for _, most in list_fixed_rates(list_stage_rows(found["source"]))), default=math.inf)
    limits = LoaderLimits(free_cores, calls_per_second=max(fixed, one.rate, many.rate))
    alone, each = model.predict(limits, most), found["both"]["processor_seconds"]
    on_cores = free_cores / each if each else math.inf
    step = found["model"]["rate"]["value"]
    capped = model.predict(replace(limits, steps_per_second=step, on_cores_per_second=on_cores), most)
    return {
        "free_cores": free_cores, "measured": [asdict(one) for one in measured], "costs": asdict(model.costs),
        "predicted": [asdict(one) for one in alone], "with_step": [asdict(one) for one in capped],
        "knee": find_knee([one.rate for one in alone]), "knee_with_step": find_knee([one.rate for one in capped]),
        "ram": _compare_ram(*ram), "sweep": None,
    }  # fmt: skip


def drop_refuted_problems(problems: Sequence[Mapping[str, Any]], is_shared: bool) -> list[Mapping[str, Any]]:
    """Those that a measurement of several workers leaves.

    is_shared: more threads were no faster, so a larger pool is no cure.

    >>> drop_refuted_problems([{"kind": "thread_pool_limits"}, {"kind": "small_shuffle"}], is_shared=True)
    [{'kind': 'small_shuffle'}]
    """
    return [one for one in problems if not is_shared or one["kind"] != "thread_pool_limits"]


def _average(workers: int, records: Sequence[Record]) -> MeasuredLoader:
    """Of several processes with so many workers."""
    cpu = statistics.fmean(record["processor_seconds"] for record in records)
    return MeasuredLoader(workers, cpu, statistics.fmean(record["usual"] for record in records))


def _compare_ram(one: tuple[int, int | None], many: tuple[int, int | None]) -> dict[str, Any]:
    """Bytes with one worker and with several, and what each more takes; None: not known."""
    (first, least), (last, most) = one, many
    each = None if least is None or most is None else (most - least) / (last - first)
    return {"workers": last, "one": least, "many": most, "each": each}


def _list_sweep(most: int) -> list[tuple[str, int]]:
    """Trials of a sweep by their keys, with their workers, every other round the other way."""
    found = []
    for repeat in range(REPEATS):
        order = range(1, most + 1) if repeat % 2 == 0 else range(most, 0, -1)
        found += [(f"{workers} workers, repeat {repeat + 1}", workers) for workers in order]
    return found


def _is_swept(log: TrialLog, most: int) -> bool:
    """Whether an earlier command has measured all of a sweep."""
    return all(key in log.trials for key, _ in _list_sweep(most))


def _sweep(asker: InputAsker, most: int) -> list[dict[str, Any]]:
    """Measured rates of 1, 2, ... workers, the repeats of each apart."""
    found: dict[int, list[float]] = {workers: [] for workers in range(1, most + 1)}
    for key, workers in _list_sweep(most):
        found[workers].append(asker.get(key, workers)["usual"])
    return [{"workers": workers, "rates": rates} for workers, rates in found.items()]
