"""What a step costs beside another version of the program."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from benchmarks.peer.observables import REPLICAS, STEPS, TOLERANCES, join_packs
from benchmarks.registry import Row, make_ratio_columns, register_benchmark
from benchmarks.starting import HERE, Checkout
from tfperf.errors import UserError

ROUNDS = 5
PACK = HERE / "data" / "dis_nlo" / "dis_nlo.h5"
CARD_STEPS = 1400  # before replicas stop
SIZES = (("dis", 1, 5000), ("dis", 10, 5000), ("dis", 100, 1400), ("global", 10, 140), ("global", 100, 42))


def _list_parts(packs: Path | None) -> dict[str, list[object]]:
    """Arguments of `benchmarks.peer.ours` by the name that `--only` takes; packs: the sets of all packs given."""
    parts: dict[str, list[object]] = {
        f"{size}:{replicas}": ["--size", size, "--replicas", replicas, "--steps", number]
        for size, replicas, number in SIZES
    }
    for replicas in (10, 100):
        parts[f"card:{replicas}"] = [*_make_pack_arguments(PACK, replicas, CARD_STEPS), "--tolerance", max(TOLERANCES)]
    if packs is not None:
        for name, tolerance in (("packs:exact", 0.0), ("packs:tolerance", max(TOLERANCES))):
            parts[name] = [*_make_pack_arguments(packs, REPLICAS, STEPS[tolerance]), "--tolerance", tolerance]
    return parts


def _make_pack_arguments(pack: Path, replicas: int, number: int) -> list[object]:
    return ["--pack", pack, "--replicas", replicas, "--steps", number]


@register_benchmark(
    "steps",
    claim="a step costs no more than in the other version",
    sweep="the peer's problems, the shipped card's sets, and those of --pack together, R = 100; parts by --only; "
    f"both checkouts in turn, {ROUNDS} rounds",
    unit="one optimizer step, ms, median; ratio: this checkout's over the other's of the same round, geometric mean "
    "with its 95 % interval",
)
def measure_steps(against: Path, only: str = "", pack: Sequence[Path] = (), rounds: int = ROUNDS) -> Iterator[Row]:
    """A row for each part. Raises: UserError where `only` names none, or a version fails."""
    if rounds < 2:
        raise UserError(f"--rounds: got {rounds}; must be at least 2")
    with tempfile.TemporaryDirectory() as folder:
        parts = _list_parts(join_packs(pack, Path(folder) / "packs.h5") if pack else None)
        chosen = [part.strip() for part in only.split(",")] if only else list(parts)
        for name in chosen:
            if name not in parts:
                raise UserError(f"--only: got {name!r}; must be some of {', '.join(parts)}, separated by commas")
        versions = [Checkout(root, Path(folder) / name) for name, root in (("now", HERE), ("other", against.resolve()))]
        for name in chosen:
            found = [[_measure_step(version, parts[name]) for version in versions] for _ in range(rounds)]
            yield _make_row(name, found)


def _measure_step(checkout: Checkout, arguments: Sequence[object]) -> tuple[float, float]:
    """Wall and processor time of a step, ms."""
    _, _, words = checkout.run("-m", "benchmarks.peer.ours", *arguments)
    record = json.loads(words.splitlines()[-1])
    return record["ms_step"][0], record["cpu_ms_step"]


def _make_row(name: str, found: Sequence[Sequence[tuple[float, float]]]) -> Row:
    row: Row = {"part": name, "rounds": len(found)}
    for number, what in enumerate(("ms", "cpu_ms")):
        now, other = ([pair[version][number] for pair in found] for version in (0, 1))
        row |= {what: median(now), f"other_{what}": median(other)} | make_ratio_columns(f"ratio_{what}", now, other)
    return row
