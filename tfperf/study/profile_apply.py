"""`tfperf profile --apply`: the first finding that a key of the card can change, tried beside the card as it is.

Both are measured in turn, as a sweep's trials: each in a process of its own, nothing recorded, in calls as long as a
fit's. Only keys are changed that leave what is computed as it is, up to rounding (`CardKind.performance_keys`).
"""

import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from pydantic import ValidationError

from tfperf.errors import CardError, TrainingError, UserError
from tfperf.report.profile_account import find_rule
from tfperf.report.profile_files import CARD_SUFFIXES
from tfperf.report.study_progress import ShowCount
from tfperf.runcard.dump import to_json_tree
from tfperf.runcard.keys import Tree, get, put
from tfperf.runcard.kinds import AnyCard
from tfperf.runcard.profile import Profile
from tfperf.signals import Signals
from tfperf.study.applied_card import find_stem, write_changed_card
from tfperf.study.change_values import CALL_KEY, LONGER, STEPS, predict_gain, suggest_values
from tfperf.study.child import Record, run_subprocess
from tfperf.study.common_steps import compute_common_times
from tfperf.trace.diff import PERIOD, SMALL, compare
from tfperf.workloads.cards import load_checked_card
from tfperf.workloads.registry import WORKLOADS

COMMAND = (sys.executable, "-m", "tfperf.study.point")
LEAST_SECONDS, MOST_SECONDS = 4.0, 10.0  # in which the steps of a trial are timed
MeasureTree = Callable[[Tree], Record]  # of a card's tree; the record says `refused` or `error` where there is no time
Outcome = Literal["kept", "small", "same", "slower", "unknown", "refused"]


@dataclass(frozen=True, kw_only=True)
class TriedChange:
    """A change that was tried: ms a step before and after it, and what chance may do to their difference.

    None: not known. predicted_ms: of the finding. turns_ms: before and after, of each turn as measured. left_out: turns
    far from the others, in words. why: of a change that could not be measured.
    """

    rule: str
    what: str
    key: str
    before: Any
    after: Any
    predicted_ms: float
    outcome: Outcome = "refused"
    before_ms: float | None = None
    after_ms: float | None = None
    chance_ms: float | None = None
    turns_ms: Sequence[tuple[float, float]] = ()
    left_out: Sequence[str] = ()
    why: str = ""


def refuse_apply(path: Path, against: Path | None, naive: bool, repeat: int) -> None:
    """UserError where nothing could be applied, or nobody could tell whether it won."""
    if path.suffix not in CARD_SUFFIXES:
        raise UserError(f"--apply: got {path}; must be a card ({', '.join(CARD_SUFFIXES)}), whose keys can be changed")
    if against is not None:
        raise UserError("--apply: excludes --against: it compares the card with itself, changed")
    if naive:
        raise UserError("--apply: excludes --naive, which takes its steps one by one whatever the card says")
    if repeat < 2:
        raise UserError(
            f"--apply: got --repeat {repeat}; must be 2 at least: one capture a side says nothing of chance"
        )


def load_measurable_card(path: Path, overrides: Sequence[str], window: Sequence[str]) -> tuple[AnyCard, Profile]:
    """A card that trials can measure, and its window of steps, whose overrides are no part of it. Raises: CardError."""
    card = load_checked_card(path, overrides)
    workload = WORKLOADS.get_offering("sweep", card.workload)
    workload.refuse_auto(card)
    workload.refuse_study(card, "profile")
    workload.refuse_trial(card)
    return card, load_checked_card(path, [*overrides, *window]).profile or Profile()


def apply_findings(
    card: AnyCard, window: Profile, report: Mapping[str, Any], folder: Path, repeat: int, show: ShowCount,
    command: Sequence[str] = COMMAND,
) -> dict[str, Any]:  # fmt: skip
    """What was tried for the findings of a card's profile, and the name of the card that has what won.

    `repeat` turns of card and change. Raises: CardError, TrainingError where the card as it is cannot be measured;
    Interrupted when a signal came: no card is written then.
    """
    with suppress(OSError):  # what cannot be removed cannot be replaced either, which says why
        _name_card(card, folder).unlink()  # of an earlier profile
    with (
        Signals(advice="no card was written; the same command begins again").listen() as signals,
        signals.defer(),
        TemporaryDirectory(prefix="tfperf-") as place,
    ):
        steps = count_steps(to_json_tree(card), window, report["period_ms"])  # the same of all trials

        def measure(tree: Tree) -> Record:
            request = {
                "card": tree, "warmup": max(window.skip, 1), "steps": steps,
                "seconds": MOST_SECONDS, "first": False, "folder": str(Path(place, "trial")),
            }  # fmt: skip
            record = run_subprocess(command, request, lambda: signals.received is not None)
            signals.stop_if_asked()
            assert record is not None
            return record

        applied = ChangeSearch(card, measure, repeat, show).run(report)
        if applied["kept"] is not None:
            applied["card"] = _write_card(card, applied["kept"], folder)
    return applied


def count_steps(tree: Tree, window: Profile, ms: float) -> int:
    """Steps that a trial times at least: enough for LEAST_SECONDS, but no more than a quarter of a short training.

    Where there is room whole calls of the longest, too: a trial that rounds up to its calls takes the same batches.

    >>> count_steps({"train": {"steps": 1000}}, Profile(steps=100), 0.5)
    250
    """
    train = tree.get("train", {})
    whole, call = (train.get(key.rpartition(".")[2]) for key in (STEPS, CALL_KEY))
    steps = max(window.steps, round(1e3 * LEAST_SECONDS / ms) if ms else 0)
    steps = steps if whole is None else min(steps, max(window.steps, whole // 4))
    longest = max(LONGER) * call if isinstance(call, int) else 1
    rounded = -(-steps // longest) * longest
    return rounded if whole is None or rounded <= whole // 4 else steps


class ChangeSearch:
    """Goes through findings, the largest gain first, until a change wins."""

    def __init__(self, card: AnyCard, measure: MeasureTree, repeat: int, show: ShowCount) -> None:
        self.workload, self.tree = WORKLOADS.get_for_card(card), to_json_tree(card)
        self.measure, self.repeat, self.show = measure, repeat, show
        self.tried: list[TriedChange] = []
        self.left: list[dict[str, Any]] = []

    def run(self, report: Mapping[str, Any]) -> dict[str, Any]:
        """`tried`, `left` (findings that no key can change, and why), `kept`: what won, None: nothing; `card`: None."""
        kept = None
        for finding in report["findings"]:
            key = find_rule(finding["rule"]).keys.get(report["program"], "")
            values, why = self._suggest(key)
            if why and finding["rule"] == "input" and self.workload.input_key is not None:
                why = "`tfperf input CARD --apply` finds the settings"
            if why:
                self.left.append({"rule": finding["rule"], "what": finding["what"], "why": why})
            elif (kept := self._try_values(finding, key, values)) is not None:
                break
        tried = [asdict(one) for one in self.tried]
        return {"tried": tried, "left": self.left, "kept": None if kept is None else asdict(kept), "card": None}

    def _suggest(self, key: str) -> tuple[Sequence[Any], str]:
        """Values to try for a key, or why there are none."""
        if key in {one.key for one in self.tried}:
            return (), f"{key} was tried already"
        if not key or key not in self.workload.kind.performance_keys:
            return (), "no key of the card makes this change, and leaves the results as they are"
        return suggest_values(self.tree, key)

    def _try_values(self, finding: Mapping[str, Any], key: str, values: Sequence[Any]) -> TriedChange | None:
        """The first value that can be measured; the change, where it wins."""
        for value in values:
            now = get(self.tree, key)
            tried = TriedChange(
                rule=finding["rule"], what=finding["what"], key=key, before=now, after=value,
                predicted_ms=predict_gain(finding, key, now, value),
            )  # fmt: skip
            why = self._explain_misfit(tried)
            tried = replace(tried, why=why) if why else self._measure_change(tried, finding)
            self.tried.append(tried)
            said = "cannot be had" if tried.outcome == "refused" else "tried"
            self.show(2 * self.repeat, 2 * self.repeat, f"{key}: {tried.after}: {said}")
            if tried.outcome == "kept":
                return tried
            if tried.outcome != "refused":
                break
        return None

    def _explain_misfit(self, change: TriedChange) -> str:
        """Why a card cannot say it, perhaps because of another key; empty: it can."""
        try:
            self.workload.kind.make_card(self._change_tree(change))
        except ValidationError as error:
            return "; ".join(one["msg"] for one in error.errors(include_url=False))
        return ""

    def _measure_change(self, change: TriedChange, finding: Mapping[str, Any]) -> TriedChange:
        """By turns; calls are no longer than those that were taken."""
        pairs = []
        for turn in range(self.repeat):
            words = f"{change.key}: {change.after}, was {change.before}: turn {turn + 1} of {self.repeat}"
            self.show(2 * turn, 2 * self.repeat, f"{words}, as it is")
            before = _refuse_fault(self.measure(self.tree))
            self.show(2 * turn + 1, 2 * self.repeat, f"{words}, changed")
            after = self.measure(self._change_tree(change))
            if why := _explain_fault(after):
                return replace(change, why=why)
            if _read_batches(before) != _read_batches(after):
                return replace(change, why="with such calls other batches would be timed, which proves nothing")
            if change.key == CALL_KEY and turn == 0:
                value = min(change.after, after.get("steps_per_call", change.after))
                if value <= max(before.get("steps_per_call", 0), change.before):
                    return replace(change, why=f"calls take {value} steps all the same")
                gain = predict_gain(finding, CALL_KEY, change.before, value)
                change = replace(change, after=value, predicted_ms=gain)
            pairs.append(compute_common_times(before, after))
        return _decide_outcome(change, pairs)

    def _change_tree(self, change: TriedChange) -> Tree:
        changed: Tree = json.loads(json.dumps(self.tree))
        put(changed, change.key, change.after)
        return changed


def _refuse_fault(record: Record) -> Record:
    """The record. Raises: CardError, TrainingError where it has no times."""
    if "refused" in record:
        raise CardError(*record["refused"])
    if "error" in record:
        raise TrainingError(f"--apply: the card as it is: {record['error']}")
    return record


def _explain_fault(record: Record) -> str:
    """Why a change has no times; empty: it has."""
    return "; ".join(record["refused"]) if "refused" in record else str(record.get("error", ""))


def _read_batches(record: Record) -> Any:
    """Which batches a trial's steps were of, where it says so."""
    return record.get("work", {}).get("batches")


def _decide_outcome(change: TriedChange, pairs: Sequence[tuple[float, float]]) -> TriedChange:
    """Whether it wins by more than chance may do, and by more than is told of.

    Of a turn the ratio counts: what slows the machine for a turn slows both sides, by a factor. Times are told at the
    median speed of the card as it is.
    """
    usual = statistics.median(before for before, _ in pairs)
    scaled = [(usual, usual * after / before) for before, after in pairs]
    before, after = ({"series": [{"step": {PERIOD: pair[side]}} for pair in scaled]} for side in (0, 1))
    step = compare(after, before, 0.0, paired=True).step
    outcomes: Mapping[str, Outcome] = {"slower": "slower", "same": "same", "unknown": "unknown", "faster": "kept"}
    outcome = outcomes[step.verdict]
    if outcome == "kept" and -step.difference_ms < SMALL * step.before:
        outcome = "small"
    chance = None if outcome == "unknown" else step.noise
    return replace(
        change, outcome=outcome, before_ms=step.before, after_ms=step.now, chance_ms=chance, turns_ms=tuple(pairs),
        left_out=step.left_out,
    )  # fmt: skip


def _write_card(card: AnyCard, kept: Mapping[str, Any], folder: Path) -> str:
    tree = to_json_tree(card)
    put(tree, kept["key"], kept["after"])
    gain = kept["before_ms"] - kept["after_ms"]
    told = [
        f"On the machine it was measured on, a step takes {kept['after_ms']:.3g} ms, {kept['before_ms']:.3g} without "
        f"the change: {gain:.3g} less, {kept['chance_ms']:.2g} more or less:",
        f"{kept['key']}: {json.dumps(kept['after'])}, was {json.dumps(kept['before'])}",
    ]
    return write_changed_card(card, tree, told, _name_card(card, folder))


def _name_card(card: AnyCard, folder: Path) -> Path:
    return folder / f"{find_stem(card)}_faster.yaml"
