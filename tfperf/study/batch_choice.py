"""A card whose batch is `auto`: the largest batch that a memory study verifies, decided before a fit's first step."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfperf.console.stages import ShowStage, show_nothing
from tfperf.errors import CardError, RunDirectoryError
from tfperf.results.contents import CARD
from tfperf.results.reading import read_text
from tfperf.results.rundir import has_run
from tfperf.runcard.dump import to_json_tree
from tfperf.runcard.keys import get, put
from tfperf.runcard.kinds import AnyCard
from tfperf.runcard.places import attach_node
from tfperf.runcard.tree import parse_plain
from tfperf.runs.unchanged import MOST_BYTES
from tfperf.study.trial_log import MEMORY_FILE
from tfperf.workloads.options import Options
from tfperf.workloads.registry import WORKLOADS
from tfperf.workloads.workload import AUTO

FOLDER = "_memory"  # after the name of the run directory: the study that decides


@dataclass(frozen=True)
class SettledCard:
    """A card without `auto` where a study has to decide, and what it decided, by key."""

    card: AnyCard
    decided: Mapping[str, Any] = field(default_factory=dict)


def decide_batch(card: AnyCard, output: Path, options: Options, show_stage: ShowStage = show_nothing) -> SettledCard:
    """The card with the batch of the run in `output`, or of a memory study beside it, where its batch is auto.

    The study measures for the card's `memory` block and takes the longest padded length; the same command goes on with
    one that was stopped. Raises: CardError, TrainingError, RunDirectoryError and Stopped, as the study does.
    """
    key = WORKLOADS.get_for_card(card).batch_key
    tree = to_json_tree(card)
    if key is None or get(tree, key) != AUTO:
        return SettledCard(card)
    if has_run(output) and not options.force:
        return SettledCard(_put_batch(card, tree, key, _read_batch(output, key)))
    if options.resume:
        return SettledCard(card)  # refused: there is nothing to go on with
    found, folder = _run_study(card, output, options, show_stage)
    largest, room = found["modes"]["train"]["largest"], found["room"]
    decided = {
        "batch": largest["batch"], "passes": largest["passes"], "budget_bytes": room["budget"],
        "margin": room["margin"], "device": room["device"], "study": folder.name,
    }  # fmt: skip
    return SettledCard(_put_batch(card, tree, key, largest["batch"]), {key: decided})


def _run_study(card: AnyCard, output: Path, options: Options, show_stage: ShowStage) -> tuple[dict[str, Any], Path]:
    from tfperf.study.memory import run_memory_study  # what draws takes a second to load

    folder = output.with_name(f"{output.name}{FOLDER}")
    if options.force and not has_run(folder):
        (folder / MEMORY_FILE).unlink(missing_ok=True)  # the study begins again; what else lies there is not its own
    return run_memory_study(card, folder, lambda done, total, words: show_stage(words, done + 1, total)), folder


def _read_batch(output: Path, key: str) -> int:
    """The batch that the run in a folder has."""
    path = output / CARD
    try:
        found = get(parse_plain(read_text(path, MOST_BYTES)), key)
    except (OSError, ValueError, AttributeError, KeyError, TypeError, CardError) as error:
        raise RunDirectoryError(f"{path}: damaged: {error}") from None
    if not isinstance(found, int):
        raise RunDirectoryError(f"{path}: damaged: {key} must be a number")
    return found


def _put_batch(card: AnyCard, tree: dict[str, Any], key: str, batch: int) -> AnyCard:
    put(tree, key, batch)
    settled: AnyCard = WORKLOADS.get_for_card(card).kind.make_card(tree)
    return settled if card.card_node is None else attach_node(settled, card.card_node)
