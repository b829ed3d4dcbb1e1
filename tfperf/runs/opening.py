"""Which part of a run is to be trained: a new one, one to go on with, more replicas, failed ones again, or none."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from tfperf.errors import CardError, RunDirectoryError
from tfperf.measure.environment import environment
from tfperf.results import store
from tfperf.results.record import CONVERGED
from tfperf.results.rundir import CARD, RESULTS, Part, RunDirectory, State
from tfperf.runcard.config import Card
from tfperf.runcard.dump import dump_card
from tfperf.runcard.types import replica_ids
from tfperf.runs.inputs import input_hashes

# keys that are compared by the hash of the file they name, so that a run may be moved with its data
BY_HASH = (("data", "pack"), ("covariance", "extra"))


@dataclass(frozen=True)
class Wish:
    """What the user asked for beside the card."""

    resume: bool = False
    force: bool = False
    retry_failed: bool = False
    more: tuple[int, ...] = ()  # replicas to add to a finished run


def open_part(run: RunDirectory, card: Card, wish: Wish) -> Part | None:
    """The part to train, None when nothing is left to do; RunDirectoryError when the wish does not fit."""
    if wish.force or not run.exists:
        return _new(run, card, wish)
    if not (wish.resume or wish.retry_failed or wish.more):
        run.make_room(force=False)  # says what may be done
    state = run.load()
    _refuse_changed_card(run.path, card, state, ignore_replicas=not wish.resume)
    pending = next((p for p in state.parts if not p.done), None)
    if pending is not None:
        if not wish.resume:
            raise RunDirectoryError(f"{run.path}: the run is not finished; go on with it by --resume first")
        return pending
    if wish.resume:
        return None
    part = _failed(run.path, state) if wish.retry_failed else _extension(run.path, wish.more, state)
    if part is not None:
        run.save(replace(state, parts=[*state.parts, part]))
    return part


def all_ids(state: State) -> tuple[int, ...]:
    """Replicas of all parts that are done or under way, ascending."""
    return tuple(sorted({i for part in state.parts for i in part.ids}))


def _new(run: RunDirectory, card: Card, wish: Wish) -> Part:
    if wish.resume and not wish.force:
        raise RunDirectoryError(f"{run.path}: holds no run to go on with; leave --resume out to begin one")
    if wish.retry_failed and not wish.force:
        raise RunDirectoryError(f"{run.path}: holds no run whose failed replicas could be retried")
    run.make_room(wish.force)
    ids = list(wish.more or card.replicas)
    part = Part(ids, [0] * len(ids))
    run.start(dump_card(replace(card, replicas=tuple(ids))), environment(), State(input_hashes(card), [part]))
    return part


def _failed(path: Path, state: State) -> Part | None:
    replicas = store.read(path / RESULTS).replicas
    rows = [i for i, status in enumerate(replicas.status) if status not in CONVERGED]
    ids = [int(replicas.id[i]) for i in rows]
    return Part(ids, [int(replicas.attempt[i]) + 1 for i in rows]) if ids else None


def _extension(path: Path, ids: tuple[int, ...], state: State) -> Part:
    known = sorted(set(ids) & set(all_ids(state)))
    if known:
        raise RunDirectoryError(f"{path}: replica {known[0]} is there already; --replicas takes new ones")
    return Part(list(ids), [0] * len(ids))


def _comparable(tree: dict[str, Any], ignore_replicas: bool) -> dict[str, Any]:
    tree = {key: dict(value) if isinstance(value, dict) else value for key, value in tree.items()}
    for block, key in BY_HASH:
        tree[block].pop(key, None)
    if ignore_replicas:
        tree.pop("replicas")
    return tree


def _differences(old: Any, new: Any, key: str = "") -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [k for k in {**old, **new} if old.get(k) != new.get(k)]
        return [line for k in keys for line in _differences(old.get(k), new.get(k), f"{key}.{k}" if key else k)]
    return [f"{key}: got {new}, the run has {old}"]


def _refuse_changed_card(path: Path, card: Card, state: State, ignore_replicas: bool) -> None:
    stored = yaml.safe_load((path / CARD).read_text(encoding="utf-8"))
    old = _comparable(stored, ignore_replicas)
    # through YAML and back, so that both sides went the same way
    new = _comparable(yaml.safe_load(dump_card(card)), ignore_replicas)
    faults = _differences(old, new) if old != new else []
    hashes = input_hashes(card)
    faults += [
        f"{key}: the file has changed since the run began" for key in hashes if state.inputs.get(key) != hashes[key]
    ]
    if faults:
        raise RunDirectoryError(f"{path / CARD}: the card is not the one that the run began with", *faults)


def parse_replicas(text: str | None) -> tuple[int, ...]:
    """Ids that `--replicas` names: "20" or "101-200"; CardError for anything else."""
    if text is None:
        return ()
    try:
        return replica_ids(int(text) if text.isdigit() else text)
    except ValueError:
        raise CardError(f"--replicas: got {text!r}; must be a number (20) or a range of ids (101-200)") from None
