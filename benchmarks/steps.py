"""What a step costs beside another version of the program."""

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from statistics import median

from benchmarks.peer.observables import REPLICAS, STEPS, TOLERANCES, join_packs
from benchmarks.registry import Row, make_ratio_columns, register_benchmark
from benchmarks.starting import HERE, Checkout
from tfperf.errors import UserError

ROUNDS, TURNS = 5, 30
PACK = HERE / "data" / "dis_nlo" / "dis_nlo.h5"
CARD_SIZES = ((10, 1400), (100, 200))
SIZES = (("dis", 1, 2000), ("dis", 10, 1000), ("dis", 100, 200), ("global", 10, 20), ("global", 100, 6))
Times = tuple[float, float]  # of a step: wall, processor, ms


def _list_parts(packs: Path | None) -> dict[str, list[object]]:
    """Arguments of `benchmarks.peer.ours` by the name that `--only` takes, with the steps of a turn.

    packs: the sets of all packs given.
    """
    parts: dict[str, list[object]] = {
        f"{size}:{replicas}": ["--size", size, "--replicas", replicas, "--steps", number]
        for size, replicas, number in SIZES
    }
    for replicas, number in CARD_SIZES:
        parts[f"card:{replicas}"] = [*_make_pack_arguments(PACK, replicas, number), "--tolerance", max(TOLERANCES)]
    if packs is not None:
        for name, tolerance in (("packs:exact", 0.0), ("packs:tolerance", max(TOLERANCES))):
            steps = max(1, STEPS[tolerance] // 7)
            parts[name] = [*_make_pack_arguments(packs, REPLICAS, steps), "--tolerance", tolerance]
    return parts


def _make_pack_arguments(pack: Path, replicas: int, number: int) -> list[object]:
    return ["--pack", pack, "--replicas", replicas, "--steps", number]


@register_benchmark(
    "steps",
    claim="a step costs no more than in the other version",
    sweep="the peer's problems, the shipped card's sets, and those of --pack together, R = 100; parts by --only; "
    f"{ROUNDS} rounds, each with a process of either version, which take {TURNS} turns of the same steps",
    unit="one optimizer step, ms, median of all turns; ratio: this checkout's over the other's, median of a round's "
    "turns, geometric mean of the rounds with its 95 % interval",
)
def measure_steps(
    against: Path, only: str = "", pack: Sequence[Path] = (), rounds: int = ROUNDS, turns: int = TURNS
) -> Iterator[Row]:
    """A row for each part. Raises: UserError where `only` names none, or a version fails."""
    for name, number, least in (("rounds", rounds, 2), ("turns", turns, 1)):
        if number < least:
            raise UserError(f"--{name}: got {number}; must be at least {least}")
    with tempfile.TemporaryDirectory() as folder:
        parts = _list_parts(join_packs(pack, Path(folder) / "packs.h5") if pack else None)
        chosen = [part.strip() for part in only.split(",")] if only else list(parts)
        for name in chosen:
            if name not in parts:
                raise UserError(f"--only: got {name!r}; must be some of {', '.join(parts)}, separated by commas")
        versions = [Checkout(root, Path(folder) / name) for name, root in (("now", HERE), ("other", against.resolve()))]
        for name in chosen:
            found = [_measure_round(versions, parts[name], turns) for _ in range(rounds)]
            yield _make_row(name, found)


def _measure_round(versions: Sequence[Checkout], arguments: Sequence[object], turns: int) -> list[list[Times]]:
    """Times of each version's turns, which begin with either in turn."""
    with ExitStack() as stack:
        processes = [stack.enter_context(_start_process(version, arguments)) for version in versions]
        found: list[list[Times]] = [[] for _ in versions]
        for turn in range(turns + 1):
            order = range(len(versions))
            for number in order if turn % 2 else reversed(order):
                times = _take_turn(processes[number])
                if turn > 0:  # the first one waits for the programs
                    found[number].append(times)
        return found


@contextmanager
def _start_process(version: Checkout, arguments: Sequence[object]) -> Iterator["subprocess.Popen[str]"]:
    """`benchmarks.peer.ours`, which ends with the block."""
    with (
        tempfile.TemporaryFile("w+") as errors,
        version.start(
            "-m", "benchmarks.peer.ours", *arguments, "--turns",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
        ) as process,
    ):  # fmt: skip
        try:
            yield process
        except EOFError:
            code = process.wait()
            errors.seek(0)
            raise UserError(
                f"{version.root}: benchmarks.peer.ours ended with {code}:", *errors.read().splitlines()[-20:]
            ) from None
        finally:
            process.kill()


def _take_turn(process: "subprocess.Popen[str]") -> Times:
    """Wall and processor time of a step, ms. Raises: EOFError where the process has ended."""
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write("\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise EOFError from None
    for line in process.stdout:
        if line.startswith("{"):
            record = json.loads(line)
            return record["ms_step"], record["cpu_ms_step"]
    raise EOFError


def _make_row(name: str, found: Sequence[Sequence[Sequence[Times]]]) -> Row:
    """found: times by round, version and turn."""
    row: Row = {"part": name, "rounds": len(found), "turns": len(found[0][0])}
    for kind, what in enumerate(("ms", "cpu_ms")):
        now, other = ([[turn[kind] for turn in round_[version]] for round_ in found] for version in (0, 1))
        ratios = [median(a / b for a, b in zip(*pair, strict=True)) for pair in zip(now, other, strict=True)]
        row |= {what: median(chain(*now)), f"other_{what}": median(chain(*other))}
        row |= make_ratio_columns(f"ratio_{what}", ratios, [1.0] * len(ratios))
    return row
