"""One mode of a memory study: trials of growing batches, their law, the largest batch that passes, the fastest one."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tfperf.errors import CardError, Stopped, TrainingError
from tfperf.measure.length_law import fit_lengths
from tfperf.measure.memory_law import MemoryLaw, fit_law
from tfperf.report.study_progress import ShowCount
from tfperf.runcard.memory import MemoryDevice
from tfperf.signals import Signals
from tfperf.study.child import Record, run_subprocess
from tfperf.study.largest_batch import PASSES, BatchSearch
from tfperf.study.proof import find_proof
from tfperf.study.trial_ends import TrialEnd, find_end
from tfperf.study.trial_log import TrialLog
from tfperf.workloads.memory_trial import BATCHES, compute_bound

TRIALS = "trials"
FIRST = 8  # samples of the smallest batch, or what fits of them
LADDER, LAST = 0.3, 0.5  # of the limit: how far batches grow in one process, and where a fresh one measures
MOST = 12  # processes for each mode and length, without those after a step down
WITH_ROOM = 1  # of them, which measures the largest batch with the whole budget
MORE_SECONDS = 1.0  # for which steps are taken where they are short, to find the one that needs least
FARTHEST = 16  # times the largest batch that was measured, that a line is used for at most
APART = 4  # times the batch before it, that the largest is above at most: a line may bend in between
# of the largest batch that was measured: what further fresh processes take, since what an allocator needs differs from
# process to process by some per cent, which batches of one process do not show
BETWEEN = (0.8, 0.6)
KNEE = 0.95  # of the best rate, that the smallest batch worth having reaches
RAM = "its RAM is above memory.ram"


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


@dataclass(kw_only=True)
class MemoryAsker:
    """Asks fresh processes for trials; what the log has already is not measured again."""

    tree: Mapping[str, Any]
    room: Room
    log: TrialLog
    signals: Signals
    show: ShowCount
    timeout: float
    command: Sequence[str]

    def get(self, key: str, request: Mapping[str, Any], done: int, words: str) -> Record:
        """The record of a trial; of one that failed its reason under `failed`, and what it had measured.

        Raises: CardError for what cannot be measured, Stopped.
        """
        if key not in self.log.trials:
            self.show(done, max(MOST, done + 1), words)
            self.log.trials[key] = self._ask(key, request)
            self.log.save({})
        return self.log.trials[key]

    def _ask(self, key: str, request: Mapping[str, Any]) -> Record:
        folder = self.log.folder / TRIALS / key.partition(":")[0].replace(" ", "-")
        whole = {
            "card": self.tree, "device": self.room.device, "limit": self.room.limit, "ram": self.room.ram,
            "folder": str(folder), **request,
        }  # fmt: skip
        record = run_subprocess(self.command, whole, lambda: self.signals.received is not None, self.timeout)
        if record is None:
            assert self.signals.received is not None
            raise Stopped(self.signals.received)
        if "refused" in record:
            raise CardError(*record["refused"])
        if "error" in record:  # kept: it is a finding
            batches = _read_batches(folder)
            return {"failed": record["error"], "timeout": self.timeout, "batches": batches, "stages": []}
        return record


@dataclass
class _LengthStudy:
    """Batches of one mode and one padded length; None: the longest, or the only one."""

    asker: MemoryAsker
    mode: str
    length: int | None = None
    points: list[dict[str, Any]] = field(default_factory=list)  # of all trials that passed, in their order
    ends: list[dict[str, Any]] = field(default_factory=list)  # of those that failed
    records: list[Record] = field(default_factory=list)  # of all
    failed: list[int] = field(default_factory=list)  # batches that failed first in their process
    count: int = 0  # of trials

    @property
    def room(self) -> Room:
        """What may be used."""
        return self.asker.room

    def measure_ladder(self) -> Record:
        """Batches that grow in one process; of those that do not fit, smaller ones. Raises: TrainingError."""
        batch = FIRST
        while True:
            record, end = self._run(batch, "ladder", LADDER, MORE_SECONDS)
            if self.points:
                return record
            assert end is not None
            if end.kind == "fault" or batch == 1:
                raise TrainingError(f"{self.mode}: {end.explain(batch)}")
            batch = end.choose_smaller(batch)

    def find_largest(self) -> dict[str, Any]:
        """What the batches need, and the largest that passes; after `measure_ladder`. Raises: TrainingError."""
        law = self._settle()
        floor = max(point["batch"] for point in self.points)
        start = 0 if law is None else law.find_batch(self.room.limit)
        start = self._keep_near(start if start > floor else 2 * floor, floor)
        ceiling = min((batch for batch in self.failed if batch > floor), default=0)
        search = BatchSearch(self._check_fit, MOST - WITH_ROOM - self.count, floor, ceiling)
        largest = search.run(start)
        law = self.fit() if law is None else law  # the search has measured more batches
        if not largest:
            raise TrainingError(f"{self.mode}: batch 1 has passed, and failed again: {self.ends[-1]['why']}")
        measured = self._measure_with_room(largest)
        return {
            "length": self.length, "points": self.points, "ends": self.ends,
            "law": None if law is None else self._describe_law(law, largest, measured), "ram": self._describe_ram(),
            "largest": {
                "batch": largest, "passes": PASSES, "predicted": start,
                "failed_above": min((end["batch"] for end in self.ends if end["batch"] > largest), default=None),
            },
            "fastest": _find_fastest(self.points, largest), "processes": self.count,
            "proof": find_proof(self.records, largest),
        }  # fmt: skip

    def fit(self) -> MemoryLaw | None:
        """The law of what was measured; None where that is one batch."""
        known = {point["batch"]: point["least"] for point in self.points}
        return fit_law(list(known.items())) if len(known) > 1 else None

    def _settle(self) -> MemoryLaw | None:
        """The law, after fresh processes have measured larger batches than the first one did."""
        law = self.fit()
        bound = compute_bound(min(point["least"] for point in self.points), self.room.limit, LAST)
        if law is None or (last := law.find_batch(bound)) <= self.points[-1]["batch"]:
            return law
        last = self._keep_near(last, self.points[-1]["batch"])
        if self._measure(last, "last", MORE_SECONDS) is None:
            for share in BETWEEN:
                self._measure(round(share * last), "between", MORE_SECONDS)
        return self.fit()

    def _keep_near(self, batch: int, known: int) -> int:
        """What a line says, but not far from a batch that was measured, and not above what fits the RAM by its line."""
        fits = self._describe_ram()["largest"]
        return min(batch, FARTHEST * known, batch if fits is None else max(fits, known + 1))

    def _measure(self, batch: int, what: str, more: float = 0) -> TrialEnd | None:
        return self._run(batch, what, None, more)[1]

    def _check_fit(self, batch: int) -> bool:
        """Whether a fresh process takes its steps. Raises: TrainingError where something else than memory is wrong."""
        end = self._measure(batch, "verify")
        if end is not None and end.kind == "fault":
            raise TrainingError(f"{self.mode}: batch {batch} fails: {end.why}")
        return end is None

    def _measure_with_room(self, batch: int) -> int | None:
        """The peak of a batch where the margin's memory may be used, too; None where its process fails.

        With just as much memory as it needs, an allocator fills all of it: tensors get larger pieces than they need.
        """
        self.count += WITH_ROOM
        request = {"batch": batch, "share": None, "more": MORE_SECONDS, "limit": self.room.budget}
        record = self._ask(batch, "whole budget", request)
        return record["batches"][-1]["least"] if record.get("batches") else None

    def _ask(self, batch: int, what: str, request: Mapping[str, Any]) -> Record:
        """The record of a trial."""
        name = self.mode if self.length is None else f"{self.mode} length {self.length}"
        words = f"{name}: batch {batch}{' and more' if request['share'] else ''}"
        whole = {"mode": self.mode, "length": self.length, **request}
        return self.asker.get(f"{name} {self.count:02}: {what} {batch}", whole, self.count - 1, words)

    def _run(self, batch: int, what: str, share: float | None, more: float) -> tuple[Record, TrialEnd | None]:
        """A trial; its points and its end are kept."""
        self.count += 1
        record = self._ask(batch, what, {"batch": batch, "share": share, "more": more})
        self.records.append(record)
        end = find_end({"error": record["failed"]} if "failed" in record else record)
        points = record.get("batches", [])
        above = [point["batch"] for point in points if _is_above(point["ram_peak"], self.room.ram)]
        self.points += [point for point in points if point["batch"] not in above]
        if end is None and above:
            end = TrialEnd("memory", RAM)
        if end is not None:
            passed = points[-1]["batch"] if points and not above else None  # the process ended at a larger one
            self.failed += [] if points else [batch]
            at = record.get("exhausted", {}).get("batch") or min(above, default=passed or batch)
            self.ends.append({"batch": at, "beyond": at == passed, **asdict(end)})
        return record, end

    def _describe_law(self, law: MemoryLaw, largest: int, measured: int | None) -> dict[str, Any]:
        """With what it says of the largest batch, where that can be said, and what was measured there with room."""
        told = law.per_sample > 0 or largest <= law.batches[-1]
        limits = law.predict_interval(largest) if told else None
        warnings = law.list_warnings()
        if limits is not None and measured is not None and not limits[0] <= measured <= limits[1]:
            warnings.append(
                f"what was measured at batch {largest} is outside of the interval: peaks do not grow on one line up to "
                "there"
            )
        return {
            **asdict(law), "warnings": warnings,
            "at_largest": {
                "bytes": law.predict(largest) if told else None, "low": limits and limits[0],
                "high": limits and limits[1], "measured": measured,
            },
        }  # fmt: skip

    def _describe_ram(self) -> dict[str, Any]:
        """The law of the process's own memory, which on a processor holds the device's, too."""
        known = {point["batch"]: point["ram_peak"] for point in self.points if point["ram_peak"] is not None}
        if len(known) < 2:
            return {"law": None, "largest": None}
        law, room = fit_law(list(known.items())), self.room.ram
        fits = 0 if room is None else law.find_batch(room)
        is_told = 0 < fits <= FARTHEST * max(known)
        return {"law": {**asdict(law), "warnings": law.list_warnings()}, "largest": fits if is_told else None}


def measure_mode(asker: MemoryAsker, mode: str) -> dict[str, Any]:
    """The report of a mode: of the longest padded length where lengths differ, `typical` has that of the typical one.

    Raises: CardError for what cannot be measured, TrainingError for another fault than memory, Stopped.
    """
    longest = _LengthStudy(asker, mode)
    ladder = longest.measure_ladder()
    lengths = ladder.get("lengths", [])
    more: dict[str, Any] = {"typical": None, "length_law": None}
    others: dict[int, _LengthStudy] = {}
    if len(set(lengths)) > 1:
        longest.length = lengths[-1]
        others = {one: _LengthStudy(asker, mode, one) for one in reversed(lengths) if one != longest.length}
        for study in others.values():
            study.measure_ladder()
        if (typical := others.get(lengths[-2])) is not None:  # else it is the longest
            more["typical"] = typical.find_largest()
    found = longest.find_largest()
    if others:
        law = fit_lengths([point for study in (*others.values(), longest) for point in _list_settled(study)])
        more["length_law"] = None if law is None else asdict(law)
    return {"stages": ladder["stages"], **found, **more}


def _list_settled(study: _LengthStudy) -> list[tuple[int, int, float]]:
    """Batch, length and bytes of the larger half of the points of activations: none of another phase is there."""
    law = study.fit()
    known = {point["batch"]: point["least"] for point in study.points}
    assert study.length is not None
    batches = () if law is None else law.batches[len(law.batches) // 2 :]
    return [(batch, study.length, known[batch]) for batch in batches]


def _is_above(bytes_taken: int | None, room: int | None) -> bool:
    return bytes_taken is not None and room is not None and bytes_taken > room


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
