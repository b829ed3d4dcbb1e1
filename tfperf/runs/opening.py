"""Which part of a run is to be trained: a new one, one to go on with, more replicas, failed ones again, or none."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfperf.errors import CardError, RunDirectoryError
from tfperf.measure.environment import environment
from tfperf.results.contents import CARD, RESULTS
from tfperf.results.rundir import RunDirectory
from tfperf.results.state import State, draw_key
from tfperf.runcard.dump import dump_card
from tfperf.runcard.nodes import shortened
from tfperf.runcard.types import MAX_REPLICA, replica_ids
from tfperf.runs.unchanged import begin_state, refuse_changed, refuse_old
from tfperf.signals import Signals
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.chunks import split
from tfperf.workloads.pdf.replicas import ReplicaPart, ReplicaRun, Replicas, refuse_broken_groups
from tfperf.workloads.pdf.results import store
from tfperf.workloads.pdf.results.record import CONVERGED
from tfperf.workloads.workload import Options

NUMBER = re.compile("[1-9][0-9]{0,8}")


MOST_CHUNKS = 5000  # of which run.json still is a text that is read


def take_directory(run: RunDirectory[Any], options: Options, signals: Signals) -> None:
    """Lock the directory of a run before anything else is done, so that whatever ends the command, --resume goes on.

    Raises: RunDirectoryError where another process has it, and where there is nothing to go on with.
    """
    if options.resume and not (run.exists or run.is_reserved):
        raise RunDirectoryError(f"{run.path}: holds no run; leave --resume out to begin one")
    run.hold()
    signals.advice = "go on with --resume"


def open_part(
    run: ReplicaRun, card: Card, hashes: Mapping[str, str], options: Options, chunk: Callable[[int], int]
) -> ReplicaPart | None:
    """The part to train first, None when nothing is left to do; RunDirectoryError when the options does not fit.

    hashes: sha256 of the card's input files. chunk: how many of so many new replicas are trained together.
    What a forced new run replaces is removed here.
    """
    if options.force or not run.exists:
        return _new(run, card, hashes, options, chunk)
    if not (options.resume or options.retry_failed or options.replicas):
        run.make_room(force=False, more="--replicas adds to it, ")  # says what may be done
    state = run.load()
    refuse_broken_groups(run.path, state)
    refuse_changed(run.path, card, hashes, state)
    pending = run.pending()
    if options.resume:
        _refuse_other_replicas(run.path, options.replicas or card.replicas, state)
        return pending
    if pending is not None:
        raise RunDirectoryError(f"{run.path}: the run is not finished; go on with it by --resume first")
    refuse_old(run.path, state)
    ids, attempts = _failed(run.path) if options.retry_failed else _extension(run.path, options.replicas, state)
    if ids:
        run.save(replace(state, parts=[*state.parts, *_parts(ids, attempts, chunk)]))
    return run.pending()


def _parts(ids: Sequence[int], attempts: Sequence[int], chunk: Callable[[int], int]) -> list[ReplicaPart]:
    pieces = split(len(ids), chunk(len(ids)))
    if len(pieces) > MOST_CHUNKS:
        raise CardError(
            f"engine.chunk: {len(ids)} replicas would be {len(pieces)} chunks; at most {MOST_CHUNKS} are kept in a run"
        )
    return [
        ReplicaPart(Replicas(list(ids[rows]), list(attempts[rows]), chunk=i, chunks=len(pieces)), draw_key())
        for i, rows in enumerate(pieces, 1)
    ]


def _new(
    run: ReplicaRun, card: Card, hashes: Mapping[str, str], options: Options, chunk: Callable[[int], int]
) -> ReplicaPart | None:
    if options.retry_failed:
        raise RunDirectoryError(f"{run.path}: holds no run; leave --retry-failed out to begin one")
    ids = list(options.replicas or card.replicas)
    parts = _parts(ids, [0] * len(ids), chunk)
    run.make_room(options.force)
    given = replace(card, replicas=tuple(ids))
    run.start(dump_card(given), environment(), begin_state(given, hashes, parts))
    return run.pending()


def _failed(path: Path) -> tuple[list[int], list[int]]:
    """Ids of the replicas that failed, and the attempts that are due."""
    replicas = store.read(path / RESULTS).replicas
    rows = [i for i, status in enumerate(replicas.status) if status not in CONVERGED]
    return [int(replicas.id[i]) for i in rows], [int(replicas.attempt[i]) + 1 for i in rows]


def _extension(path: Path, ids: tuple[int, ...], state: State[Replicas]) -> tuple[list[int], list[int]]:
    known = sorted(set(ids) & {i for part in state.parts for i in part.own.ids})
    if known:
        raise RunDirectoryError(f"{path}: replica {known[0]} is there already; --replicas takes new ones")
    return list(ids), [0] * len(ids)


def _refuse_other_replicas(path: Path, ids: tuple[int, ...], state: State[Replicas]) -> None:
    asked = [[i for p in state.parts[n : n + part.own.chunks] for i in p.own.ids]
             for n, part in enumerate(state.parts) if part.own.chunk == 1]  # fmt: skip
    if list(ids) not in asked:
        first = asked[0]
        raise RunDirectoryError(
            f"{path / CARD}: replicas: got {ids[0]}-{ids[-1]}, the run began with {first[0]}-{first[-1]}"
        )


def parse_replicas(text: str | None) -> tuple[int, ...]:
    """Ids that `--replicas` names: "20" or "101-200"; CardError for anything else."""
    if text is None:
        return ()
    try:
        return replica_ids(int(text) if NUMBER.fullmatch(text) else text)
    except ValueError:
        given = shortened(repr(text[:100]))
        what = f"must be a number (20) or a range of ids (101-200), no id above {MAX_REPLICA}"
        raise CardError(f"--replicas: got {given}; {what}") from None
