"""`tfperf memory`: what a model costs, what each sample adds, and the largest batch that fits, proved by running it."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from tfperf.errors import CardError, RunDirectoryError, Stopped, TrainingError
from tfperf.measure.environment import collect_environment, count_cores, list_gpus, read_available_bytes
from tfperf.measure.memory_law import MemoryLaw, fit_law
from tfperf.report.memory_page import render_memory
from tfperf.report.sections import write_text
from tfperf.report.study_progress import ShowCount
from tfperf.results.contents import PAGE
from tfperf.results.lock import DirectoryLock
from tfperf.results.rundir import has_run
from tfperf.runcard.dump import to_json_tree
from tfperf.runcard.kinds import AnyCard
from tfperf.runcard.memory import MemoryBudget, MemoryDevice
from tfperf.signals import Signals
from tfperf.study.child import Record, run_subprocess
from tfperf.study.largest_batch import PASSES, BatchSearch
from tfperf.study.static_memory import find_holders
from tfperf.study.trial_ends import TrialEnd, find_end
from tfperf.study.trial_log import ENVIRONMENT, TrialLog, make_card_identity, write
from tfperf.workloads.memory_trial import BATCHES, compute_bound
from tfperf.workloads.registry import WORKLOADS

COMMAND = (sys.executable, "-m", "tfperf.study.memory_trial")
FILE = "memory.json"
TRIALS = "trials"
MODES = ("train", "predict")
GIB = 2**30
FIRST = 8  # samples of the smallest batch, or what fits of them
LADDER, LAST = 0.3, 0.4  # of the limit: how far batches double in one process, and where a fresh one measures
MOST = 12  # processes for each mode, without those after a step down
MORE_SECONDS = 1.0  # for which steps are taken where they are short, to find the one that needs least
FARTHEST = 16  # times the largest batch of the first process, that the fresh one takes at most
KNEE = 0.95  # of the best rate, that the smallest batch worth having reaches
Mode = Literal["train", "predict"]


@dataclass(frozen=True, kw_only=True)
class Room:
    """What may be used, in bytes; of the device, the limit is what the margin leaves."""

    device: MemoryDevice
    budget: int
    margin: float
    ram: int | None

    @property
    def limit(self) -> int:
        """What steps may use of the device."""
        return int(self.budget * (1 - self.margin))


def find_room(wanted: MemoryBudget) -> Room:
    """The room on this machine. Raises: CardError for a device that is not there, or more than there is."""
    gpus, free = list_gpus(), read_available_bytes()
    device: MemoryDevice = wanted.device if wanted.device != "auto" else "gpu" if gpus else "cpu-arena"
    if device == "gpu" and not gpus:
        raise CardError("memory.device: got gpu; there is none; allowed: cpu-arena")
    there = gpus[0]["memory_bytes"] if device == "gpu" else free
    if wanted.budget == "device" and there is None:
        raise CardError(
            "memory.budget: got device; this system does not tell how much memory is free; must be a number"
        )
    budget = there if wanted.budget == "device" else int(wanted.budget * GIB)
    assert budget is not None
    if there is not None and budget > there:
        raise CardError(f"memory.budget: got {budget / GIB:.3g} GiB; there are {there / GIB:.3g}")
    ram = free if wanted.ram == "free" else int(wanted.ram * GIB)
    return Room(device=device, budget=budget, margin=wanted.margin, ram=ram)


@dataclass(kw_only=True)
class _ModeStudy:
    """One mode of a card, trial by trial; what the log has already is not measured again."""

    tree: Mapping[str, Any]
    mode: str
    room: Room
    log: TrialLog
    signals: Signals
    show: ShowCount
    timeout: float
    command: Sequence[str]
    points: list[dict[str, Any]]  # of all trials that passed, in their order
    ends: list[dict[str, Any]]  # of those that failed
    count: int = 0  # of trials

    def run(self) -> dict[str, Any]:
        """The report of the mode. Raises: CardError for what cannot be measured, TrainingError for another fault."""
        ladder = self._measure_ladder()
        law = self._fit()
        bound = compute_bound(min(point["least"] for point in self.points), self.room.limit, LAST)
        if law is not None and (last := law.find_batch(bound)) > self.points[-1]["batch"]:
            self._measure(min(last, FARTHEST * self.points[-1]["batch"]), "last", more=MORE_SECONDS)
            law = self._fit()
        floor = max(point["batch"] for point in self.points)
        start = 0 if law is None else law.find_batch(self.room.limit)
        start = start if start > floor else 2 * floor
        search = BatchSearch(self._check_fit, MOST - self.count, floor)
        largest = search.run(start)
        return {
            "stages": ladder["stages"], "points": self.points, "ends": self.ends,
            "law": None if law is None else self._describe_law(law, largest), "ram": self._describe_ram(),
            "largest": {
                "batch": largest, "passes": PASSES, "predicted": start,
                "failed_above": min(search.failed, default=None),
            },
            "fastest": _find_fastest(self.points, largest), "processes": self.count,
        }  # fmt: skip

    def _measure_ladder(self) -> Record:
        """Batches that double in one process; of those that do not fit, smaller ones."""
        batch = FIRST
        while True:
            record, end = self._run(batch, "ladder", LADDER, MORE_SECONDS)
            if self.points:
                return record
            assert end is not None
            if end.kind == "fault" or batch == 1:
                raise TrainingError(f"{self.mode}: batch {batch} fails: {end.why}")
            batch //= 2

    def _measure(self, batch: int, what: str, more: float = 0) -> TrialEnd | None:
        return self._run(batch, what, None, more)[1]

    def _check_fit(self, batch: int) -> bool:
        """Whether a fresh process takes its steps. Raises: TrainingError where something else than memory is wrong."""
        end = self._measure(batch, "verify")
        if end is not None and end.kind == "fault":
            raise TrainingError(f"{self.mode}: batch {batch} fails: {end.why}")
        return end is None

    def _run(self, batch: int, what: str, share: float | None, more: float) -> tuple[Record, TrialEnd | None]:
        """A trial; its points and its end are kept."""
        self.count += 1
        key = f"{self.mode} {self.count}: {what} {batch}"
        if key not in self.log.trials:
            self.show(
                self.count - 1, max(MOST, self.count), f"{self.mode}: batch {batch}{' and more' if share else ''}"
            )
            self.log.trials[key] = self._ask(batch, share, more)
            self.log.save({})
        record = self.log.trials[key]
        end = find_end({"error": record["failed"]} if "failed" in record else record)
        self.points += record.get("batches", [])
        if end is not None:
            at = record.get("exhausted", {}).get("batch", batch)
            self.ends.append({"batch": at, **asdict(end)})
        return record, end

    def _ask(self, batch: int, share: float | None, more: float) -> Record:
        folder = self.log.folder / TRIALS / f"{self.mode}-{self.count:02}"
        request = {
            "card": self.tree, "mode": self.mode, "device": self.room.device, "limit": self.room.limit,
            "batch": batch, "share": share, "more": more, "folder": str(folder),
        }  # fmt: skip
        record = run_subprocess(self.command, request, lambda: self.signals.received is not None, self.timeout)
        if record is None:
            assert self.signals.received is not None
            raise Stopped(self.signals.received)
        if "refused" in record:
            raise CardError(*record["refused"])
        if "error" in record:  # kept: it is a finding
            return {"failed": record["error"], "batches": _read_batches(folder), "stages": []}
        return record

    def _fit(self) -> MemoryLaw | None:
        known = {point["batch"]: point["least"] for point in self.points}
        return fit_law(list(known.items())) if len(known) > 1 else None

    def _describe_law(self, law: MemoryLaw, largest: int) -> dict[str, Any]:
        limits = law.predict_interval(largest)
        return {
            **asdict(law), "warnings": law.list_warnings(),
            "at_largest": {"bytes": law.predict(largest), "low": limits and limits[0], "high": limits and limits[1]},
        }  # fmt: skip

    def _describe_ram(self) -> dict[str, Any]:
        """The law of the process's own memory, which on a processor holds the device's, too."""
        known = {point["batch"]: point["ram_peak"] for point in self.points if point["ram_peak"] is not None}
        if len(known) < 2:
            return {"law": None, "largest": None}
        law, room = fit_law(list(known.items())), self.room.ram
        fits = law.find_batch(room * (1 - self.room.margin)) if room is not None and law.per_sample > 0 else None
        return {"law": {**asdict(law), "warnings": law.list_warnings()}, "largest": fits}


def _read_batches(folder: Path) -> list[dict[str, Any]]:
    """What a trial had measured when its process ended."""
    try:
        lines = (folder / BATCHES).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    return [json.loads(line) for line in lines if line.endswith("}")]


def _find_fastest(points: Sequence[Mapping[str, Any]], largest: int) -> dict[str, Any]:
    """The batch with most examples per second of those that were measured, and the smallest that comes near it."""
    rates = {p["batch"]: p["batch"] / p["seconds_per_step"] for p in points if p["batch"] <= largest}
    best = max(rates, key=lambda batch: rates[batch])
    knee = min(batch for batch, rate in rates.items() if rate >= KNEE * rates[best])
    return {
        "batch": best,
        "examples_per_second": rates[best],
        "knee": knee,
        "knee_rate": rates[knee],
        "rates": [*rates.items()],
    }


def run_memory_study(
    card: AnyCard, output: Path, show: ShowCount, modes: Sequence[str] = ("train",), timeout: float = 600.0,
    command: Sequence[str] = COMMAND,
) -> dict[str, Any]:  # fmt: skip
    """Measure a card's memory and find its largest batch, and write memory.json and report.html; returns the report.

    What the folder has already is not measured again. Raises: CardError for a faulty card or one that cannot be
    measured, TrainingError where steps fail for another reason than memory, RunDirectoryError for the folder, Stopped
    when a signal came: what was measured until then is kept.
    """
    workload = WORKLOADS.get_offering("memory", card.workload)
    if has_run(output):
        raise RunDirectoryError(f"{output}: holds a run; choose another folder for a memory study")
    wanted = card.memory or MemoryBudget()
    room = find_room(wanted)
    with Signals().listen() as signals, DirectoryLock(output) as held, signals.defer():
        identity = make_card_identity(card, {}) | {"files": dict(workload.hash_files(card))}
        log = TrialLog(held.path, identity, FILE)
        log.load()
        if log.choices is None:
            log.choices = asdict(room)
        room = Room(**log.choices)  # what is free changes from minute to minute
        write(held.path / ENVIRONMENT, collect_environment())
        tree = to_json_tree(card)
        report: dict[str, Any] = {
            "title": card.title,
            "cores": count_cores(),
            "room": {**asdict(room), "limit": room.limit},
            "modes": {},
        }
        for mode in modes:
            report["modes"][mode] = _ModeStudy(
                tree=tree, mode=mode, room=room, log=log, signals=signals, show=show, timeout=timeout,
                command=command, points=[], ends=[],
            ).run()  # fmt: skip
            if command is COMMAND:  # what stands for trials has no step that could be traced
                batch, stopped = report["modes"][mode]["largest"]["batch"], lambda: signals.received is not None
                report["modes"][mode]["held"] = find_holders(card, mode, batch, log, stopped, timeout)
        log.save(report)
        write_text(held.path / PAGE, render_memory(report))
    return report
