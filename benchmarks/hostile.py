"""What hostile files cost: seconds and memory of the command that is given them, above those of a harmless card."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks import bombs_hdf5 as bombs_hdf5
from benchmarks.bombs import BOMBS, CHECK
from benchmarks.registry import Row, register_benchmark
from tfperf.errors import UserError

SECONDS, MB = 10.0, 1000.0  # what none may take
KILLED = 60  # seconds
ROUNDS = 3  # of the harmless card
KEYS = ("seconds", "cpu", "mb")
# the command itself, then the peak of its memory since it is this program, and its CPU time
RUN = """
import atexit, json, os, sys
from pathlib import Path
cost_file = Path(sys.argv.pop(1))
def write_costs():
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    cost_file.write_text(json.dumps({"mb": int(lines["VmHWM"].split()[0]) * 1024 / 1e6, "cpu": sum(os.times()[:2])}))
atexit.register(write_costs)
from tfperf.__main__ import main
sys.exit(main())
"""


@register_benchmark(
    "hostile",
    claim=f"no hostile file or option takes more than {SECONDS:g} s of CPU time and {MB / 1e3:g} GB above what a "
    "harmless card takes; each is refused with exit code 2, or, where nothing reads what it has too much of, taken",
    sweep="files and options that claim much; `--only` takes the beginnings of their names",
    unit="seconds, CPU seconds and MB of memory above those of `tfperf check` of a small card in the same run (the "
    f"median of {ROUNDS}), each in a process of its own",
)
def measure_hostile(only: str = "") -> Iterator[Row]:
    """Each bomb in a copy of the same folder; the worst of all at the end."""
    wanted = tuple(name.strip() for name in only.split(","))
    chosen = {name: make for name, make in BOMBS.items() if name.startswith(wanted)}
    if not chosen:
        raise UserError(f"--only: got {only!r}; must be beginnings of names, as `pack` or `run.json`")
    with tempfile.TemporaryDirectory() as scratch:
        good = Path(scratch, "good")
        write_inputs(good)
        base = _measure_harmless(good)
        yield {"case": "a harmless card, as it is", **base}
        rows = []
        for name, make in chosen.items():
            folder = Path(scratch, "bomb")
            shutil.copytree(good, folder)
            found = measure_command(folder, make(folder))
            rows.append({"case": name, **found, **{key: max(0.0, found[key] - base[key]) for key in KEYS}})
            yield rows[-1]
            shutil.rmtree(folder)
    codes = " ".join(sorted({str(row["exit"]) for row in rows}))
    yield {"case": "the worst", **{key: max(row[key] for row in rows) for key in KEYS}, "exit": codes, "said": ""}


def _measure_harmless(folder: Path) -> Row:
    """What the small card takes."""
    costs = [measure_command(folder, CHECK) for _ in range(ROUNDS)]
    for one in costs:
        if one["exit"] != 0:
            raise UserError(f"the harmless card is refused: {one['said']}")
    return costs[0] | {key: median(one[key] for one in costs) for key in KEYS}


def write_inputs(folder: Path) -> None:
    """A small card with its pack, and two finished runs a and b that `compare` and `postfit` take."""
    from tests.make_pack import make_card
    from tests.make_run import make_run

    folder.mkdir()
    make_card(folder)
    for name in "ab":
        make_run(folder / name)


def measure_command(folder: Path, arguments: list[str]) -> Row:
    """Run the command in the folder: seconds, CPU seconds, peak memory in MB, exit code, end of its first line."""
    cost_file = folder / "costs.json"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "TFPERF_CACHE": str(folder / "cache")}
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, "-c", RUN, str(cost_file), *arguments], cwd=folder, env=environment, capture_output=True,
            timeout=KILLED, text=True, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"seconds": float(KILLED), "cpu": float(KILLED), "mb": 0.0, "exit": "hangs", "said": ""}
    seconds = time.perf_counter() - start
    found = json.loads(cost_file.read_text()) if cost_file.exists() else {"mb": 0.0, "cpu": 0.0}
    said = [*(done.stderr or done.stdout).splitlines(), ""][0][-60:]
    return {"seconds": seconds, **found, "exit": done.returncode, "said": said}
