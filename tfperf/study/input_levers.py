"""What may be tried to have the same batches sooner: settings of a dataset, values of its function's arguments."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfperf.runcard.keys import Tree, get, put

SETTINGS, ARGUMENTS, CHOICES = "data.input", "data.arguments", "data.choices"
NOTABLE, HALF = 0.1, 0.5  # share of all time that is worth a change; share of a stage's time from which on it waits
THREADS = (8, 16, 32)  # of a pool, where stages wait: of waiting calls any number may run


@dataclass(frozen=True)
class InputCandidate:
    """Changes of a card, by key within the two blocks that say how batches are made; empty: the card as it is."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The same text for the same changes."""
        return json.dumps([self.settings, self.arguments], sort_keys=True)

    def merge(self, other: "InputCandidate") -> "InputCandidate":
        """These changes, then others."""
        return InputCandidate({**self.settings, **other.settings}, {**self.arguments, **other.arguments})

    def change(self, tree: Tree) -> Tree:
        """A card's tree with them."""
        changed: Tree = json.loads(json.dumps(tree))
        now = get(changed, SETTINGS)
        settings = {**(now if isinstance(now, dict) else {}), **self.settings}
        put(changed, SETTINGS, settings or None)
        put(changed, ARGUMENTS, {**get(changed, ARGUMENTS), **self.arguments})
        return changed

    def list_values(self) -> dict[str, Any]:
        """By full keys."""
        found = {f"{SETTINGS}.{key}": value for key, value in self.settings.items()}
        return found | {f"{ARGUMENTS}.{key}": value for key, value in self.arguments.items()}


@dataclass(frozen=True)
class Lever:
    """Candidates of which one at most is taken; why: for what reason it is offered instead, empty: it is not."""

    name: str
    candidates: Sequence[InputCandidate]
    why: str = ""


def list_levers(source: Mapping[str, Any], choices: Mapping[str, Sequence[Any]] | None, cores: int) -> list[Lever]:
    """Those for a tf.data.Dataset, as an input study describes it; settings first, since most depends on them.

    choices: values of arguments that the card allows.
    """
    stages = source["pipeline"]["stages"]
    shares = _measure_shares(source["times"]["stages"])
    waiting = [stages[at] for at, (share, waits) in enumerate(shares) if share >= NOTABLE and waits >= HALF]
    levers = [_make_thread_lever(waiting), _make_call_lever(stages, cores), *_list_python_levers(waiting, cores)]
    if stages[-1]["kind"] != "prefetch":
        levers.append(Lever("prefetch", [InputCandidate({"prefetch": "auto"})]))
    levers += [
        Lever(name, [InputCandidate(arguments={name: value}) for value in values])
        for name, values in (choices or {}).items()
    ]
    return [lever for lever in levers if lever.candidates]


def _make_thread_lever(waiting: Sequence[Mapping[str, Any]]) -> Lever:
    """A pool for more calls than there are cores; stages with a number of calls of their own get as many."""
    parallel = [stage for stage in waiting if _may_overlap(stage)]
    set_ones = {_name_stage(stage) for stage in parallel if isinstance(stage["parallel"], int)}

    def make(threads: int) -> InputCandidate:
        calls = {"parallel_calls": dict.fromkeys(sorted(set_ones), threads)} if set_ones else {}
        return InputCandidate({"threads": threads, **calls})

    return Lever("threads", [make(threads) for threads in THREADS] if parallel else [])


def _make_call_lever(stages: Sequence[Mapping[str, Any]], cores: int) -> Lever:
    """All maps that may be parallel, by AUTOTUNE, which most are not asked for, or one call a core."""
    able = [stage for stage in stages if stage["kind"] == "map" and _may_overlap(stage)]
    wishes = [calls for calls in ("auto", cores) if any(stage["parallel"] != calls for stage in able)]
    return Lever("parallel calls", [InputCandidate({"parallel_calls": calls}) for calls in wishes])


def _list_python_levers(waiting: Sequence[Mapping[str, Any]], cores: int) -> list[Lever]:
    """Sequential maps that wait in Python, or draw: what they leave behind is not known."""
    names = [_name_stage(one) for one in waiting if one["kind"] == "map" and not _may_overlap(one)]
    why = "its function has a state, or calls Python, which may have one: whether calls may overlap is yours to know"
    return [
        Lever(
            f"parallel calls of {name}",
            [InputCandidate({"parallel_calls": {name: THREADS[0]}, "threads": THREADS[0]})],
            why,
        )
        for name in dict.fromkeys(names)
    ]


def _measure_shares(times: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Of each stage its share of all CPU and waiting time, and of its own time what it waits."""
    costs = [[max(0.0, one[part]["value"]) for part in ("cpu", "wait")] for one in times]
    seconds = [sum(cost) * (one["per_output"] or 0.0) for cost, one in zip(costs, times, strict=True)]
    total = sum(seconds)
    return [
        (mine / total if total else 0.0, wait / (cpu + wait) if cpu + wait else 0.0)
        for mine, (cpu, wait) in zip(seconds, costs, strict=True)
    ]


def _name_stage(stage: Mapping[str, Any]) -> str:
    return stage["name"] or stage["kind"]  # type: ignore[no-any-return]


def _may_overlap(stage: Mapping[str, Any]) -> bool:
    """Whether its calls do, by the user's own wish, or could, as its function leaves nothing behind."""
    return stage["parallel"] not in (None, 1) or _is_free_of_state(stage)


def _is_free_of_state(stage: Mapping[str, Any]) -> bool:
    return stage["function"] is not None and not stage["function"]["stateful"]
