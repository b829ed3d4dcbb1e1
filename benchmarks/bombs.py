"""Small files, and options, that claim much: each is made in a folder, with the command that is given it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

Make = Callable[[Path], list[str]]  # a folder with card.yaml, pack.h5 and finished runs a and b -> arguments of tfperf
BOMBS: dict[str, Make] = {}
CHECK = ["check", "card.yaml"]
COMPARE = ["compare", "a", "b"]
POSTFIT = ["postfit", "b"]
RESUME = ["fit", "card.yaml", "-o", "b", "--resume", "-q"]
OVERRIDE_BYTES, CARD_BYTES, STATE_BYTES = 65_000, 255_000, 16 * 10**6

LAUGHS = "a: &a [x]\n" + "".join(
    f"{chr(c)}: &{chr(c)} [{', '.join([f'*{chr(c - 1)}'] * 9)}]\n" for c in range(98, 120)
)  # fmt: skip


def bomb(name: str) -> Callable[[Make], Make]:
    """Register a bomb."""

    def register(make: Make) -> Make:
        BOMBS[name] = make
        return make

    return register


@bomb("card: a pipe")
def _pipe(folder: Path) -> list[str]:
    os.mkfifo(folder / "pipe.yaml")
    return ["check", "pipe.yaml"]


def _card(text: str) -> Make:
    def make(folder: Path) -> list[str]:
        (folder / "card.yaml").write_text(text)
        return CHECK

    return make


BOMBS["card: a list of 80 000"] = _card("[" + "a, " * (CARD_BYTES // 3 - 9) + "a]")
BOMBS["card: 80 000 keys"] = _card("{" + "a, " * (CARD_BYTES // 3 - 9) + "}")
BOMBS["card: 100 000 levels"] = _card("[" * 100_000)
BOMBS["card: lists of lists of aliases"] = _card(LAUGHS)


def _override(text: str) -> Make:
    return lambda folder: [*CHECK, "--set", text[:OVERRIDE_BYTES]]


BOMBS["override: 8000 names to exclude"] = _override(
    "data.exclude=[" + ", ".join(f"S{i}" for i in range(8000)) + "]" + " " * OVERRIDE_BYTES
)
BOMBS["override: 20 000 letters to exclude"] = _override("data.exclude=[" + "a, " * 21_000 + "a]")
BOMBS["override: 60 000 digits"] = _override("seed=" + "9" * 60_000)
BOMBS["override: 60 000 levels"] = _override("sweep=" + "[" * 60_000)


@bomb("run.json: 16 MB of empty parts")
def _parts(folder: Path) -> list[str]:
    return _state(folder, '{"format": 2, "sha256": "", "parts": [' + "{}," * (STATE_BYTES // 3) + "{}]}")


@bomb("run.json: 16 MB of numbers")
def _numbers(folder: Path) -> list[str]:
    return _state(folder, '{"format": 2, "sha256": "", "parts": [' + "9999," * (STATE_BYTES // 5) + "1]}")


@bomb("run.json: 60 MB of empty parts")
def _large(folder: Path) -> list[str]:
    return _state(folder, '{"format": 2, "sha256": "", "parts": [' + "{}," * 20_000_000 + "{}]}")


@bomb("run.json: 1e6 levels")
def _levels(folder: Path) -> list[str]:
    return _state(folder, '{"a":' * 10**6)


@bomb("run.json: a pipe")
def _state_pipe(folder: Path) -> list[str]:
    (folder / "b" / "run.json").unlink()
    os.mkfifo(folder / "b" / "run.json")
    return RESUME


@bomb("run.json: a device")
def _state_device(folder: Path) -> list[str]:
    (folder / "b" / "run.json").unlink()
    (folder / "b" / "run.json").symlink_to("/dev/zero")
    return RESUME


def _state(folder: Path, text: str) -> list[str]:
    (folder / "b" / "run.json").write_text(text)
    return RESUME


@bomb("report.json: 16 MB of empty sets")
def _report(folder: Path) -> list[str]:
    path = folder / "b" / "report.json"
    report = json.loads(path.read_text())
    path.write_text(json.dumps({**report, "more": []}).replace("[]", "[" + "{}," * (STATE_BYTES // 3) + "{}]"))
    return COMPARE


@bomb("card.yaml of a run: aliases")
def _stored(folder: Path) -> list[str]:
    (folder / "b" / "card.yaml").write_text(LAUGHS)
    return RESUME


@bomb("card.yaml of a run: a list of 300 000")
def _stored_list(folder: Path) -> list[str]:
    (folder / "b" / "card.yaml").write_text("[" + "a, " * 300_000 + "a]")
    return RESUME


@bomb("report.json: 1e6 levels")
def _report_levels(folder: Path) -> list[str]:
    (folder / "b" / "report.json").write_text('{"a":' * 10**6)
    return COMPARE
