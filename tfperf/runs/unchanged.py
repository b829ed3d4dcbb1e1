"""Whether a card and its files are still those that a run began with."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tfperf.errors import CardError, RunDirectoryError
from tfperf.results.contents import CARD
from tfperf.results.reading import describe_error, read_text
from tfperf.results.rundir import has_run, load_state
from tfperf.results.state import OLD, Own, Part, RunState, make_key
from tfperf.runcard.dump import dump_card
from tfperf.runcard.keys import find_mappings
from tfperf.runcard.kinds import AnyCard, CardKind
from tfperf.runcard.tree import parse_plain
from tfperf.version import VERSION
from tfperf.workloads.registry import WORKLOADS
from tfperf.workloads.workload import Workload

MOST_BYTES = 2**20  # of a card that was written
LEFT_OUT = ("profile", "sweep", "memory")  # of no weight for the result


def make_state(
    card: AnyCard, kind: CardKind, hashes: Mapping[str, str], parts: Sequence[Part[Own]],
    decided: Mapping[str, Any] = MappingProxyType({}),
) -> RunState[Own]:  # fmt: skip
    """The state of a run that begins with a card and files, whose sha256 are `hashes`; decided: before it, by key."""
    digest = digest_inputs(card, kind, hashes)
    return RunState(digest, dict(hashes), list(parts), VERSION, make_key(), dict(decided))


def digest_inputs(card: AnyCard, kind: CardKind, hashes: Mapping[str, str], workload: str | None = None) -> str:
    """sha256 of all that a resumed run must share with the one before; workload: its name then, by default its own."""
    tree = {**_select_comparable(parse_plain(dump_card(card)), kind), "workload": workload or card.workload}
    return hashlib.sha256(json.dumps({"card": tree, "files": dict(hashes)}, sort_keys=True).encode()).hexdigest()


def _list_digests(card: AnyCard, kind: CardKind, hashes: Mapping[str, str]) -> list[str]:
    """The digests that a run of the card may have, which may be of before its workload was renamed."""
    names = [card.workload, *(old for old, new in WORKLOADS.renamed.items() if new == card.workload)]
    return [digest_inputs(card, kind, hashes, name) for name in names]


def refuse_old(path: Path, state: RunState[Own]) -> None:
    """RunDirectoryError for a finished run of tfperf 0.1.0, to which nothing can be added."""
    if state.version == OLD:
        raise RunDirectoryError(
            f"{path}: made by tfperf {OLD}, to whose runs this version adds nothing; begin a new run in another folder"
        )


def refuse_changed(path: Path, card: AnyCard, kind: CardKind, hashes: Mapping[str, str], state: RunState[Own]) -> None:
    """RunDirectoryError where the card of the run in `path`, or a file by its sha256, is another one.

    Files are compared by their hashes alone, so that a run may be moved with its data.
    """
    old, new = _read_card(path / CARD, kind), _select_comparable(parse_plain(dump_card(card)), kind)
    if state.version == OLD:
        new = _select_known(new, old)
    faults = _list_differences(old, new) if old != new else []
    changed = [key for key in sorted({*hashes, *state.inputs}) if hashes.get(key) != state.inputs.get(key)]
    faults += [f"{key}: not the file that the run began with" for key in changed]
    if faults and old == new:
        what = "what its card names was changed since the run began; put it back, or begin again with --force"
        raise RunDirectoryError(f"{path}: {what}", *faults)
    if faults:
        raise RunDirectoryError(f"{path / CARD}: the card is not the one that the run began with", *faults)
    if state.version != OLD and state.digest not in _list_digests(card, kind, hashes):
        raise RunDirectoryError(f"{path / CARD}: is not the card that the run began with; it was changed afterwards")


def _read_card(path: Path, kind: CardKind) -> dict[str, Any]:
    try:
        return _select_comparable(parse_plain(read_text(path, MOST_BYTES)), kind)
    except (OSError, ValueError, AttributeError, KeyError, TypeError, CardError) as error:
        raise RunDirectoryError(f"{path}: damaged: {describe_error(error)}") from None


def _select_comparable(tree: dict[str, Any], kind: CardKind) -> dict[str, Any]:
    """The card's tree without what is compared in another way."""
    name = tree.get("workload", WORKLOADS.default)
    tree = {**tree, "workload": WORKLOADS.renamed.get(name, name)}
    for *outer, key in (*kind.files, *kind.folders, *kind.code):
        for mapping in find_mappings(tree, outer):
            if (*outer, key) in kind.code:
                mapping[key] = os.path.basename(mapping.get(key) or "")  # a file's content is compared by its hash
            elif (*outer, key) in kind.files or mapping.get(key) not in kind.folders[*outer, key]:
                mapping.pop(key, None)
    return {key: value for key, value in tree.items() if key not in (*LEFT_OUT, *kind.uncompared_keys)}


def _select_known(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """A card's tree without the keys that another one, of an earlier version, does not know."""
    return {
        key: _select_known(value, old[key]) if isinstance(value, dict) and isinstance(old[key], dict) else value
        for key, value in new.items()
        if key in old
    }


def _list_differences(old: Any, new: Any) -> list[str]:
    return [f"{key}: got {now}, the run has {before}" for key, before, now in _find_differences(old, new)]


def _find_differences(old: Any, new: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Keys whose values differ, with both."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [k for k in {**old, **new} if old.get(k) != new.get(k)]:
            yield from _find_differences(old.get(name), new.get(name), f"{key}.{name}" if key else name)
    else:
        yield key, old, new


def describe_differences(before: Path, now: Path, workload: Workload[Any]) -> list[str]:
    """In which keys and files two runs of a workload differ, a line each. Raises: RunDirectoryError.

    Of runs without a run.json only the cards are compared: their files are for the workload to compare.
    """
    old, new = (_read_card(path / CARD, workload.kind) for path in (before, now))
    files, others = (load_state(path, workload.own_type).inputs if has_run(path) else {} for path in (before, now))
    changed = [key for key in sorted({*files, *others}) if files.get(key) != others.get(key)]
    lines = [f"{key}: {after}, was {value}" for key, value, after in _find_differences(old, new)]
    return [*lines, *(f"{key}: another content" for key in changed)]
