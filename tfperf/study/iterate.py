"""`tfperf iterate`: a card is fitted again and again, with what each fit says of the next, until nothing moves.

The folder holds

fit_1, fit_2, ...     run directories
iterations.json       what each fit moved, and how far
CARD_iterated.yaml    the card of the last fit where nothing moved any more, else that of the next one
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tfperf.console.stages import WARNING, Stages
from tfperf.errors import Interrupted, RunDirectoryError
from tfperf.results.files import write_atomically
from tfperf.results.moves import Move
from tfperf.results.rundir import has_run
from tfperf.runcard.dump import dump_card
from tfperf.runcard.kinds import AnyCard
from tfperf.runs.flow import fit_card
from tfperf.study.applied_card import find_stem
from tfperf.workloads.options import Options
from tfperf.workloads.refinement import Refinement
from tfperf.workloads.registry import WORKLOADS
from tfperf.workloads.workload import Workload

RECORD = "iterations.json"


@dataclass(frozen=True)
class Iterations:
    """What became of a card. `card`: the file that was written; `run`: its fit, None where it is still to be made."""

    moves: Sequence[Sequence[Move]]  # of each fit
    card: Path
    run: Path | None

    @property
    def is_still(self) -> bool:
        """Whether the last fit moved nothing."""
        return self.run is not None


def iterate_card(card: AnyCard, folder: Path, most: int, progress: Stages) -> Iterations:
    """Fit a card until its own results leave it as it is, at most `most` times; finished fits are not made again.

    Raises: CardError for a workload whose fits say nothing of the next, RunDirectoryError where `folder` is a run or
    its fits are of another card, and whatever a fit raises; Interrupted when a signal stopped one.
    """
    workload = WORKLOADS.get_offering("iterate", card.workload)
    if has_run(folder):
        raise RunDirectoryError(f"{folder}: is a run directory; name a folder for several runs")
    moves: list[Sequence[Move]] = []
    run, current = None, card
    while len(moves) < most or has_run(_name_run(folder, len(moves) + 1)):  # no fit that is there is forgotten
        before, run = run, _name_run(folder, len(moves) + 1)
        progress.say(f"{run.name}, of {max(most, len(moves) + 1)} at most")
        refined = _fit_and_refine(workload, current, run, before, progress)
        moves.append(refined.moves)
        if not has_run(_name_run(folder, len(moves) + 1)):
            _write_record(folder, moves)
        for line in (describe_moves(run.name, refined.moves), *(f"{WARNING}{note}" for note in refined.notes)):
            progress.say(line)
        if refined.is_still:
            return Iterations(moves, _write_card(folder, card, current, run), run)
        current = refined.card
    progress.say(f"{WARNING}after {len(moves)} fits something still moves; a larger --most goes on")
    return Iterations(moves, _write_card(folder, card, current, None), None)


def _name_run(folder: Path, number: int) -> Path:
    return folder / f"fit_{number}"


def describe_moves(name: str, moves: Sequence[Move]) -> str:
    """Which settings a fit moved, and which of them furthest.

    >>> moves = [Move("a", "1", "2", 0.4, 0.2, "of the new width"), Move("b", "1", "1.1", 0.1, 0.2, "of the new width")]
    >>> describe_moves("fit_1", moves)
    'fit_1: 1 of 2 settings moved, a furthest: 1 to 2, 0.4 of the new width (allowed: 0.2)'
    """
    moved = [move for move in moves if not move.is_still]
    if not moved:
        return f"{name}: none of {len(moves)} settings moved"
    furthest = max(moved, key=lambda move: -1.0 if move.distance is None else move.distance / move.limit)
    how_far = "no fit before to compare with"
    if furthest.distance is not None:
        how_far = f"{furthest.distance:.2g} {furthest.unit} (allowed: {furthest.limit:.2g})"
    told = f"{furthest.key} furthest: {furthest.before} to {furthest.after}, {how_far}"
    return f"{name}: {len(moved)} of {len(moves)} settings moved, {told}"


def _fit_and_refine(
    workload: Workload[AnyCard], card: AnyCard, run: Path, before: Path | None, progress: Stages
) -> Refinement:
    try:
        fit_card(card, run, Options(resume=has_run(run)), progress)
    except Interrupted as stop:
        raise Interrupted(stop.signum, stop.step, "the same command goes on") from None
    progress.show_stage("comparing with the card")
    return workload.refine_card(card, run, before)


def _write_record(folder: Path, moves: Sequence[Sequence[Move]]) -> None:
    with write_atomically(folder / RECORD) as temporary:
        temporary.write_text(json.dumps([[asdict(move) for move in some] for some in moves], indent=1) + "\n")


def _write_card(folder: Path, given: AnyCard, card: AnyCard, run: Path | None) -> Path:
    """The path of the card, whose own paths are absolute."""
    path = folder / f"{find_stem(given)}_iterated.yaml"
    head = f"its fit is {run.name}" if run is not None else "its fit is still to be made, and may move it"
    with write_atomically(path) as temporary:
        temporary.write_text(f"# Written by tfperf iterate: {head}.\n{dump_card(card)}", encoding="utf-8")
    return path
