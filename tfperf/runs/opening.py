"""Which part of a run is to be trained: a new one, one to go on with, more replicas, failed ones again, or none."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfperf.errors import CardError, RunDirectoryError
from tfperf.measure.environment import environment
from tfperf.results import store
from tfperf.results.record import CONVERGED
from tfperf.results.rundir import CARD, RESULTS, Part, RunDirectory, State
from tfperf.runcard.config import Card
from tfperf.runcard.dump import dump_card
from tfperf.runcard.types import replica_ids
from tfperf.runs.chunks import split
from tfperf.runs.unchanged import refuse_changed


@dataclass(frozen=True)
class Wish:
    """What the user asked for beside the card."""

    resume: bool = False
    force: bool = False
    retry_failed: bool = False
    replicas: tuple[int, ...] = ()  # of a new run instead of the card's; of a finished run, to be added

    def refuse_contradictions(self) -> None:
        """CardError for wishes that exclude each other."""
        if self.resume + self.force + self.retry_failed > 1:
            raise CardError("--resume, --force and --retry-failed exclude each other")
        if self.retry_failed and self.replicas:
            raise CardError("--retry-failed takes the replicas that failed; leave --replicas out")


def open_part(
    run: RunDirectory, card: Card, hashes: Mapping[str, str], wish: Wish, chunk: Callable[[int], int]
) -> Part | None:
    """The part to train first, None when nothing is left to do; RunDirectoryError when the wish does not fit.

    hashes: sha256 of the card's input files. chunk: how many of so many new replicas are trained together.
    What a forced new run replaces is removed here.
    """
    if wish.force or not run.exists:
        return _new(run, card, hashes, wish, chunk)
    if not (wish.resume or wish.retry_failed or wish.replicas):
        run.make_room(force=False, more="--replicas adds to it, ")  # says what may be done
    state = run.load()
    refuse_changed(run.path, card, hashes, state)
    pending = run.pending()
    if wish.resume:
        _refuse_other_replicas(run.path, wish.replicas or card.replicas, state)
        return pending
    if pending is not None:
        raise RunDirectoryError(f"{run.path}: the run is not finished; go on with it by --resume first")
    ids, attempts = _failed(run.path) if wish.retry_failed else _extension(run.path, wish.replicas, state)
    if ids:
        run.save(replace(state, parts=[*state.parts, *_parts(ids, attempts, chunk)]))
    return run.pending()


def _parts(ids: Sequence[int], attempts: Sequence[int], chunk: Callable[[int], int]) -> list[Part]:
    pieces = split(len(ids), chunk(len(ids)))
    return [
        Part(list(ids[rows]), list(attempts[rows]), chunk=i, chunks=len(pieces)) for i, rows in enumerate(pieces, 1)
    ]


def _new(
    run: RunDirectory, card: Card, hashes: Mapping[str, str], wish: Wish, chunk: Callable[[int], int]
) -> Part | None:
    if wish.resume or wish.retry_failed:
        flag = "--resume" if wish.resume else "--retry-failed"
        raise RunDirectoryError(f"{run.path}: holds no run; leave {flag} out to begin one")
    ids = list(wish.replicas or card.replicas)
    parts = _parts(ids, [0] * len(ids), chunk)
    run.make_room(wish.force)
    run.start(dump_card(replace(card, replicas=tuple(ids))), environment(), State(dict(hashes), parts))
    return run.pending()


def _failed(path: Path) -> tuple[list[int], list[int]]:
    """Ids of the replicas that failed, and the attempts that are due."""
    replicas = store.read(path / RESULTS).replicas
    rows = [i for i, status in enumerate(replicas.status) if status not in CONVERGED]
    return [int(replicas.id[i]) for i in rows], [int(replicas.attempt[i]) + 1 for i in rows]


def _extension(path: Path, ids: tuple[int, ...], state: State) -> tuple[list[int], list[int]]:
    known = sorted(set(ids) & {i for part in state.parts for i in part.ids})
    if known:
        raise RunDirectoryError(f"{path}: replica {known[0]} is there already; --replicas takes new ones")
    return list(ids), [0] * len(ids)


def _refuse_other_replicas(path: Path, ids: tuple[int, ...], state: State) -> None:
    asked = [[i for p in state.parts[n : n + part.chunks] for i in p.ids]
             for n, part in enumerate(state.parts) if part.chunk == 1]  # fmt: skip
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
        return replica_ids(int(text) if text.isdigit() else text)
    except ValueError:
        raise CardError(f"--replicas: got {text!r}; must be a number (20) or a range of ids (101-200)") from None
