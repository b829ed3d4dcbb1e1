"""A card whose `data.input` is `auto`: settings that win beyond chance, found before a fit's first step, and kept."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tfperf.console.stages import ShowStage, show_nothing
from tfperf.data.cache import find_cache_folder, make_private, replace_file
from tfperf.errors import CardError, RunDirectoryError, Stopped, TrainingError
from tfperf.measure.environment import count_cores
from tfperf.results.contents import CARD
from tfperf.results.reading import read_text
from tfperf.results.rundir import has_run
from tfperf.runcard.dump import to_json_tree
from tfperf.runcard.keys import Tree, get, put
from tfperf.runcard.kinds import AnyCard
from tfperf.runcard.places import attach_node
from tfperf.runcard.tree import parse_plain
from tfperf.runs.unchanged import MOST_BYTES
from tfperf.signals import Signals
from tfperf.study.batch_choice import SettledCard, decide_batch
from tfperf.study.child import Record, run_subprocess
from tfperf.study.input import COMMAND
from tfperf.study.input_apply import Effort, InputSearch
from tfperf.study.memory import hash_named_files
from tfperf.study.trial_log import make_identity
from tfperf.workloads.options import Options
from tfperf.workloads.registry import WORKLOADS
from tfperf.workloads.workload import AUTO

FOLDER = "inputs"  # of the cache
EFFORT = Effort(seconds=1.0, turns=3, processes=3, proofs=3)
TIMEOUT = 600.0  # s of a trial
KEPT = ("settings", "changed", "ratio", "why")  # of what a search finds


def settle_card(card: AnyCard, output: Path, options: Options, show_stage: ShowStage = show_nothing) -> SettledCard:
    """The card without `auto` where something is to be decided before a fit. Raises: as both of what decide."""
    first = decide_input(card, output, options, show_stage)
    second = decide_batch(first.card, output, options, show_stage)
    return SettledCard(second.card, {**first.decided, **second.decided})


def decide_input(card: AnyCard, output: Path, options: Options, show_stage: ShowStage = show_nothing) -> SettledCard:
    """The card with the settings of the run in `output`, of an earlier search, or of one that is made now.

    A search is remembered in tfperf's cache by machine, versions, the card's data and all files that these are made
    by. Batches are the same with any of its settings, bit for bit. Raises: CardError for data that no fresh process
    can have, TrainingError where they fail, RunDirectoryError for a damaged run, Stopped when a signal came.
    """
    workload, tree = WORKLOADS.get_for_card(card), to_json_tree(card)
    key = workload.input_key
    if key is None or get(tree, key) != AUTO:
        return SettledCard(card)
    if has_run(output) and not options.force:
        return SettledCard(_put_settings(card, tree, key, _read_settings(output, key)))
    if options.resume:
        return SettledCard(card)  # refused: there is nothing to go on with
    block = key.partition(".")[0]
    files = {**hash_named_files(card, workload.kind), **workload.hash_files(card)}
    name = hashlib.sha256(json.dumps(make_identity([tree[block], files]), sort_keys=True).encode()).hexdigest()
    with suppress(OSError, ValueError, KeyError, TypeError, CardError):  # an entry that is none is made again
        found = _read_entry(name)
        settled = _put_settings(card, tree, key, found["settings"])
        return SettledCard(settled, {key: {**found, "remembered": True}})
    found = {part: one for part, one in _search(tree, key, show_stage).items() if part in KEPT}
    with suppress(OSError):
        _write_entry(name, found)
    return SettledCard(_put_settings(card, tree, key, found["settings"]), {key: {**found, "remembered": False}})


def _search(tree: Tree, key: str, show_stage: ShowStage) -> dict[str, Any]:
    """What wins of the settings alone; values of the function's arguments stay the card's."""
    bare: Tree = json.loads(json.dumps(tree))
    put(bare, key, None)
    put(bare, f"{key.partition('.')[0]}.choices", None)
    with Signals().listen() as signals:

        def ask(name: str, request: Mapping[str, Any]) -> Record:
            record = run_subprocess(COMMAND, request, lambda: signals.received is not None, TIMEOUT)
            if record is None:
                assert signals.received is not None
                raise Stopped(signals.received)
            if "refused" in record:
                raise CardError(*record["refused"])
            if "error" in record:
                raise TrainingError(f"{key}: {name}: {record['error']}")
            return record

        search = InputSearch(
            tree=bare, ask=ask, cores=count_cores(), effort=EFFORT,
            show=lambda done, total, words: show_stage(f"{key}: auto: {words}", done + 1, total),
        )  # fmt: skip
        return search.run()


def _put_settings(card: AnyCard, tree: Tree, key: str, settings: Mapping[str, Any] | None) -> AnyCard:
    """Raises: CardError for settings that are none."""
    changed: Tree = json.loads(json.dumps(tree))
    put(changed, key, dict(settings) if settings else None)
    settled: AnyCard = WORKLOADS.get_for_card(card).kind.make_card(changed)
    return settled if card.card_node is None else attach_node(settled, card.card_node)


def _read_settings(output: Path, key: str) -> Mapping[str, Any] | None:
    """Those that the run in a folder has."""
    path = output / CARD
    try:
        found = get(parse_plain(read_text(path, MOST_BYTES)), key)
    except KeyError:
        return None
    except (OSError, ValueError, AttributeError, TypeError, CardError) as error:
        raise RunDirectoryError(f"{path}: damaged: {error}") from None
    if found is not None and not isinstance(found, Mapping):
        raise RunDirectoryError(f"{path}: damaged: {key} must be settings")
    return found


def _find_entry(name: str) -> Path:
    """Raises: OSError where there is no cache."""
    folder = find_cache_folder()
    if folder is None:
        raise FileNotFoundError("no folder for a cache")
    return folder / FOLDER / f"{name}.json"


def _read_entry(name: str) -> dict[str, Any]:
    found = json.loads(_find_entry(name).read_text(encoding="utf-8"))
    return {part: found[part] for part in KEPT}


def _write_entry(name: str, found: Mapping[str, Any]) -> None:
    path = _find_entry(name)
    make_private(path.parent)
    with replace_file(path) as temporary:
        temporary.write_text(json.dumps(found), encoding="utf-8")
