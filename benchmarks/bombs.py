"""Small files, and options, that claim much: each is made in a folder, with the command that is given it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

BombMaker = Callable[[Path], list[str]]  # folder with card.yaml, pack.h5, finished runs a and b -> tfperf's arguments
BOMBS: dict[str, BombMaker] = {}
CHECK = ["check", "card.yaml"]
COMPARE = ["compare", "a", "b"]
POSTFIT = ["postfit", "b"]
RESUME = ["fit", "card.yaml", "-o", "b", "--resume", "-q"]
OVERRIDE_BYTES, CARD_BYTES, STATE_BYTES = 65_000, 255_000, 16 * 10**6

LAUGHS = "a: &a [x]\n" + "".join(
    f"{chr(c)}: &{chr(c)} [{', '.join([f'*{chr(c - 1)}'] * 9)}]\n" for c in range(98, 120)
)  # fmt: skip


def register_bomb(name: str) -> Callable[[BombMaker], BombMaker]:
    """Register a bomb."""

    def register(make: BombMaker) -> BombMaker:
        BOMBS[name] = make
        return make

    return register


@register_bomb("card: a pipe")
def _make_pipe(folder: Path) -> list[str]:
    os.mkfifo(folder / "pipe.yaml")
    return ["check", "pipe.yaml"]


def _make_card_bomb(text: str) -> BombMaker:
    def make(folder: Path) -> list[str]:
        (folder / "card.yaml").write_text(text)
        return CHECK

    return make


BOMBS["card: a list of 80 000"] = _make_card_bomb("[" + "a, " * (CARD_BYTES // 3 - 9) + "a]")
BOMBS["card: 80 000 keys"] = _make_card_bomb("{" + "a, " * (CARD_BYTES // 3 - 9) + "}")
BOMBS["card: 100 000 levels"] = _make_card_bomb("[" * 100_000)
BOMBS["card: lists of lists of aliases"] = _make_card_bomb(LAUGHS)


def _make_override_bomb(text: str) -> BombMaker:
    return lambda folder: [*CHECK, "--set", text[:OVERRIDE_BYTES]]


BOMBS["override: 8000 names to exclude"] = _make_override_bomb(
    "data.exclude=[" + ", ".join(f"S{i}" for i in range(8000)) + "]" + " " * OVERRIDE_BYTES
)
BOMBS["override: 20 000 letters to exclude"] = _make_override_bomb("data.exclude=[" + "a, " * 21_000 + "a]")
BOMBS["override: 60 000 digits"] = _make_override_bomb("seed=" + "9" * 60_000)
BOMBS["override: 60 000 levels"] = _make_override_bomb("sweep=" + "[" * 60_000)


@register_bomb("run.json: 16 MB of empty parts")
def _write_parts(folder: Path) -> list[str]:
    return _write_state(folder, '{"format": 2, "sha256": "", "parts": [' + "{}," * (STATE_BYTES // 3) + "{}]}")


@register_bomb("run.json: 16 MB of numbers")
def _write_numbers(folder: Path) -> list[str]:
    return _write_state(folder, '{"format": 2, "sha256": "", "parts": [' + "9999," * (STATE_BYTES // 5) + "1]}")


@register_bomb("run.json: 60 MB of empty parts")
def _write_large_state(folder: Path) -> list[str]:
    return _write_state(folder, '{"format": 2, "sha256": "", "parts": [' + "{}," * 20_000_000 + "{}]}")


@register_bomb("run.json: 1e6 levels")
def _write_deep_state(folder: Path) -> list[str]:
    return _write_state(folder, '{"a":' * 10**6)


@register_bomb("run.json: a pipe")
def _make_state_pipe(folder: Path) -> list[str]:
    (folder / "b" / "run.json").unlink()
    os.mkfifo(folder / "b" / "run.json")
    return RESUME


@register_bomb("run.json: a device")
def _link_state_device(folder: Path) -> list[str]:
    (folder / "b" / "run.json").unlink()
    (folder / "b" / "run.json").symlink_to("/dev/zero")
    return RESUME


def _write_state(folder: Path, text: str) -> list[str]:
    (folder / "b" / "run.json").write_text(text)
    return RESUME


@register_bomb("report.json: 16 MB of empty sets")
def _write_report(folder: Path) -> list[str]:
    path = folder / "b" / "report.json"
    report = json.loads(path.read_text())
    path.write_text(json.dumps({**report, "more": []}).replace("[]", "[" + "{}," * (STATE_BYTES // 3) + "{}]"))
    return COMPARE


@register_bomb("card.yaml of a run: aliases")
def _write_stored_card(folder: Path) -> list[str]:
    (folder / "b" / "card.yaml").write_text(LAUGHS)
    return RESUME


@register_bomb("card.yaml of a run: a list of 300 000")
def _write_stored_list(folder: Path) -> list[str]:
    (folder / "b" / "card.yaml").write_text("[" + "a, " * 300_000 + "a]")
    return RESUME


@register_bomb("report.json: 1e6 levels")
def _write_deep_report(folder: Path) -> list[str]:
    (folder / "b" / "report.json").write_text('{"a":' * 10**6)
    return COMPARE
