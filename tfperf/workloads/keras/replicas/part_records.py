"""What report.json tells of each part of a run of replicas: those that were added later have figures of their own."""

from collections.abc import Mapping, Sequence
from typing import Any

from tfperf.measure.clock import compute_quartiles
from tfperf.workloads.replica_chunks import ReplicaPart


class PartRecords:
    """The figures of all parts so far, in their order; seconds: of the commands before, by stage."""

    def __init__(self, earlier: Mapping[str, Any] | None = None) -> None:
        """earlier: report.json of what was there before this command; None: nothing was."""
        found: Mapping[str, Any] = earlier or {}
        self._earlier = list(found.get("parts", []))
        self._seconds: Mapping[str, float] = found.get("seconds", {})
        self._timed: dict[str, list[float]] = {}  # seconds of steps of this command, by the keys of its parts

    def add(self, part: ReplicaPart, seconds_per_step: Sequence[float]) -> None:
        """Take up the steps of a part."""
        self._timed[part.key] = list(seconds_per_step)

    def list_parts(self, parts: Sequence[ReplicaPart]) -> list[dict[str, Any]]:
        """One entry for each of all parts of the run that were trained."""
        before = {entry["part"]: entry for entry in self._earlier}
        trained = [part for part in parts if part.done or part.key in self._timed]
        return [self._describe(part) if part.key in self._timed else before.get(part.key) or self._describe(part)
                for part in trained]  # fmt: skip

    def _describe(self, part: ReplicaPart) -> dict[str, Any]:
        return {
            "part": part.key, "replicas": list(part.own.ids), "resumed_from_steps": list(part.resumed_from_steps),
            "ms_per_step": compute_quartiles(self._timed.get(part.key, [])),
        }  # fmt: skip

    def compute_step_quartiles(self, parts: Sequence[ReplicaPart]) -> dict[str, float | None]:
        """Milliseconds a step of all replicas; None each where a part was trained by another command."""
        known = all(part.key in self._timed for part in parts)
        return compute_quartiles([one for steps in self._timed.values() for one in steps] if known else [])

    def sum_seconds(self, now: Mapping[str, float]) -> dict[str, float]:
        """Of this command and those before, by stage."""
        return {name: self._seconds.get(name, 0.0) + now.get(name, 0.0) for name in {**self._seconds, **now}}
