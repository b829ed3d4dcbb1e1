"""`tfperf input --apply`: which settings have the same batches sooner, beyond chance; one lever after the other.

Each lever's candidates are measured beside the card as it is by then, by turns in one fresh process, which also
compares the first batches of two passes bit for bit. The best of them is measured again beside the card, in further
processes, and kept only where the ratio of the rates is above 1 with its whole interval.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from tfperf.errors import TrainingError
from tfperf.measure.confidence import ConfidenceInterval, estimate_geometric_mean, estimate_mean
from tfperf.report.study_progress import ShowCount
from tfperf.runcard.keys import Tree, get
from tfperf.study.child import Record
from tfperf.study.input_levers import ARGUMENTS, CHOICES, SETTINGS, InputCandidate, Lever, list_levers

AS_IT_IS = InputCandidate()
OTHER_VALUES = "changes values of batches, or how many there are"
UNKNOWN_LENGTH = "how many batches a pass has is not known before it ends, so whether it has the same"
WHOLE = {"elements": None, "seconds": 20.0}  # of passes whose function was given another argument
DATASET = "tf.data.Dataset"


AskTrial = Callable[[str, Mapping[str, Any]], Record]  # of a name, not measured again where that is known


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    seconds: float = 2.0  # of a turn
    turns: int = 4  # in a process
    processes: int = 3  # that confirm a candidate
    proofs: int = 4  # processes that prove the whole; 0: none


@dataclass(kw_only=True)
class InputSearch:
    """Goes through levers."""

    tree: Tree
    ask: AskTrial
    show: ShowCount
    cores: int
    effort: Effort
    source: Mapping[str, Any] | None = None  # as an input study describes the data; None: not described yet
    is_repeatable: bool = True
    kept: InputCandidate = AS_IT_IS
    changed: list[dict[str, Any]] = field(default_factory=list)
    offered: list[dict[str, Any]] = field(default_factory=list)
    undone: bool = False
    _done: int = 0
    _total: int = 2

    def run(self, step_seconds: float | None = None) -> dict[str, Any]:
        """What was found: `settings` and `arguments` to take, `changed`, `offered`, ratios, and whether passes can be
        had again.

        step_seconds: of the model, for the proof under a device that computes beside the processor.
        """
        source = self._describe()
        if why := _explain_fixed(source):
            return self._conclude({}, f"{why}: nothing can be set")
        choices = get(self.tree, CHOICES) if self.is_repeatable else None
        levers = list_levers(source, choices, self.cores)
        self._total += sum(1 + self.effort.processes for _ in levers) + self.effort.proofs
        for lever in levers:
            self._try_lever(lever)
        proof = self._prove(step_seconds) if self.changed and self.effort.proofs else {}
        return self._conclude(proof, "what won at first did not win in the proof" if self.undone else "")

    def _describe(self) -> Mapping[str, Any]:
        """Of data that two readings have differ only types and shapes are compared from then on."""
        request: dict[str, Any] = {"cards": [self.tree, self.tree]}
        if self.source is None:
            described = self._measure("apply: describes the data", request | {"describe": self.effort.seconds * 3})
            self.source = described["source"]
        if not _explain_fixed(self.source):
            twice = self._measure("apply: reads the data twice", request | {"digest": {}})["candidates"]
            if faults := [one["fault"] for one in twice if "fault" in one]:
                raise TrainingError(f"input: {faults[0]}")
            self.is_repeatable = _has_same_elements(twice[0]["digests"], twice[1]["digests"], "values")
        return self.source

    def _try_lever(self, lever: Lever) -> None:
        """Take the best of its candidates where that wins, offer what may not be taken."""
        candidates = [self.kept, *(self.kept.merge(one) for one in lever.candidates)]
        found = self._compare(f"apply: {lever.name}", candidates, {"digest": {}})
        same: dict[int, ConfidenceInterval] = {}
        for number, one in enumerate(found[1:], 1):
            if "fault" in one:
                continue
            ratio = estimate_geometric_mean(_list_ratios(found[0], one))
            if not self._is_same(found[0], one):
                self._offer(lever.candidates[number - 1], ratio, OTHER_VALUES)
            elif lever.candidates[number - 1].arguments and one["digests"]["cardinality"] < 0:
                self._offer(lever.candidates[number - 1], ratio, UNKNOWN_LENGTH)
            elif lever.why:
                self._offer(lever.candidates[number - 1], ratio, lever.why)
            else:
                same[number] = ratio
        best = max(same, key=lambda number: same[number].value, default=None)
        if best is None or same[best].value <= 1:
            self._total -= self.effort.processes
        elif lever.candidates[best - 1].arguments and not self._is_same_in_whole(lever, lever.candidates[best - 1]):
            self._offer(lever.candidates[best - 1], same[best], OTHER_VALUES)
        else:
            self._measure_again(lever, lever.candidates[best - 1])

    def _measure_again(self, lever: Lever, candidate: InputCandidate) -> None:
        """Measured anew: of several the best one looks better than it is."""
        merged = self.kept.merge(candidate)
        pairs = self._measure_pairs(f"{lever.name}, again", self.kept, merged, self.effort.processes, [0.0])
        ratio = _compare_pairs(pairs, 0)
        if ratio.low is None or ratio.low <= 1:
            return
        now = {**_list_card_values(self.tree), **self.kept.list_values()}
        self.changed += [
            {"key": key, "before": now.get(key), "after": value, "ratio": asdict(ratio)}
            for key, value in candidate.list_values().items()
        ]
        self.kept = merged

    def _is_same_in_whole(self, lever: Lever, candidate: InputCandidate) -> bool:
        """Whether batches are alike in a whole pass, or in what comes in some time: an argument may do anything."""
        cards = [one.change(self.tree) for one in (self.kept, self.kept.merge(candidate))]
        name = f"apply: {lever.name}, compares all batches {candidate.key}"
        base, other = self._measure(name, {"cards": cards, "digest": WHOLE})["candidates"]
        return "fault" not in base and "fault" not in other and self._is_same(base, other)

    def _prove(self, step_seconds: float | None) -> dict[str, Any]:
        """The card as it was against what was taken; undone where that does not win after all."""
        steps = [0.0, *([] if step_seconds is None else [step_seconds])]
        pairs = self._measure_pairs("proof", AS_IT_IS, self.kept, self.effort.proofs, steps)
        alone, device = _compare_pairs(pairs, 0), None if step_seconds is None else _compare_pairs(pairs, 1)
        if alone.low is None or alone.low <= 1 or (device is not None and device.high is not None and device.high < 1):
            self.undone, self.changed, self.kept = True, [], AS_IT_IS
        return {
            "alone": asdict(alone), "device": None if device is None else asdict(device), "step_seconds": step_seconds,
            "busy": None if step_seconds is None else _describe_busy(pairs, step_seconds),
        }  # fmt: skip

    def _measure_pairs(
        self, name: str, before: InputCandidate, after: InputCandidate, processes: int, steps: Sequence[float]
    ) -> list[tuple[Record, Record]]:
        """Records before and after from so many processes, with each of the steps."""
        return [
            _get_pair(self._compare(f"apply: {name} {number + 1}", [before, after], {"steps": list(steps)}))
            for number in range(processes)
        ]

    def _compare(self, name: str, candidates: Sequence[InputCandidate], more: Mapping[str, Any]) -> list[Record]:
        """Records of candidates, measured by turns."""
        request = {
            "cards": [one.change(self.tree) for one in candidates], "steps": [0.0], "turns": self.effort.turns,
            "seconds": self.effort.seconds, **more,
        }  # fmt: skip
        found: list[Record] = self._measure(f"{name} {candidates[-1].key}", request)["candidates"]
        return found

    def _measure(self, name: str, request: Mapping[str, Any]) -> Record:
        self.show(self._done, max(self._total, self._done + 1), name)
        self._done += 1
        return self.ask(name, request)

    def _is_same(self, base: Record, other: Record) -> bool:
        """Whether first batches are: bit for bit, or in types and shapes where the card's own are never the same."""
        return _has_same_elements(base["digests"], other["digests"], "values" if self.is_repeatable else "shapes")

    def _offer(self, candidate: InputCandidate, ratio: ConfidenceInterval, why: str) -> None:
        if ratio.low is not None and ratio.low > 1:
            self.offered.append({"values": candidate.list_values(), "ratio": asdict(ratio), "why": why})

    def _conclude(self, proof: Mapping[str, Any], why: str) -> dict[str, Any]:
        return {
            "settings": dict(self.kept.settings), "arguments": dict(self.kept.arguments), "changed": self.changed,
            "offered": self.offered, "ratio": proof.get("alone"), "ratio_device": proof.get("device"),
            "step_seconds": proof.get("step_seconds"), "busy": proof.get("busy"), "repeatable": self.is_repeatable,
            "why": why, "card": None,
        }  # fmt: skip


def _explain_fixed(source: Mapping[str, Any]) -> str:
    """Why no setting fits such data; empty: some do."""
    if source["kind"] != DATASET:
        return f"the data are no {DATASET}"
    return "" if source.get("is_settable", True) else f"no function of the card returns a {DATASET}"


def _list_ratios(base: Record, other: Record, place: int = 0) -> list[float]:
    """Of rates, turn by turn, with one of the steps. Raises: TrainingError where a side could not be measured."""
    if faults := [one["fault"] for one in (base, other) if "fault" in one]:
        raise TrainingError(f"input: {faults[0]}")
    return [new / old for old, new in zip(base["rates"][place], other["rates"][place], strict=True)]


def _has_same_elements(one: Mapping[str, Any], other: Mapping[str, Any], part: str) -> bool:
    """Whether all elements are alike that both have digests of, and passes are as long."""
    pairs = zip(one[part], other[part], strict=True)
    alike = all(a == b for first, second in pairs for a, b in zip(first, second, strict=False))
    return bool(alike and one["cardinality"] == other["cardinality"])


def _get_pair(records: Sequence[Record]) -> tuple[Record, Record]:
    before, after = records
    return before, after


def _compare_pairs(pairs: Sequence[tuple[Record, Record]], place: int) -> ConfidenceInterval:
    """Rates after over rates before, with one of the steps: turns of one process are one value, being of one course."""
    ratios = [estimate_geometric_mean(_list_ratios(old, new, place)).value for old, new in pairs]
    return estimate_geometric_mean(ratios)


def _describe_busy(pairs: Sequence[tuple[Record, Record]], step_seconds: float) -> dict[str, Any]:
    """Share of the time in which a device is busy whose steps take so long, before and after."""
    return {
        side: asdict(estimate_mean([min(1.0, fmean(pair[number]["rates"][1]) * step_seconds) for pair in pairs]))
        for number, side in enumerate(("before", "after"))
    }


def _list_card_values(tree: Tree) -> dict[str, Any]:
    """What a card says now, by full keys."""
    settings = get(tree, SETTINGS)
    return InputCandidate(settings if isinstance(settings, dict) else {}, get(tree, ARGUMENTS)).list_values()
