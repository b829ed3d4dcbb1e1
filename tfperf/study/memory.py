"""`tfperf memory`: what a model costs, what each sample adds, and the largest batch that fits, proved by running it."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tfperf.errors import CardError, RunDirectoryError
from tfperf.measure.environment import collect_environment, count_cores, read_available_bytes, read_memory_bytes
from tfperf.measure.nvml import open_gpus
from tfperf.report.memory_page import render_memory
from tfperf.report.sections import write_text
from tfperf.report.study_progress import ShowCount
from tfperf.results.contents import PAGE
from tfperf.results.lock import DirectoryLock
from tfperf.results.reading import hash_file
from tfperf.results.rundir import has_run
from tfperf.runcard.dump import to_json_tree
from tfperf.runcard.keys import find_mappings
from tfperf.runcard.kinds import AnyCard, CardKind
from tfperf.runcard.memory import MemoryBudget, MemoryDevice
from tfperf.signals import Signals
from tfperf.study.memory_search import TRIALS, MemoryAsker, Room, measure_mode
from tfperf.study.static_memory import find_holders, refuse_modes
from tfperf.study.trial_ends import find_end
from tfperf.study.trial_log import ENVIRONMENT, MEMORY_FILE, TrialLog, make_card_identity, write
from tfperf.workloads.registry import WORKLOADS

COMMAND = (sys.executable, "-m", "tfperf.study.memory_trial")
GIB = 2**30
LEAST = 16 * 2**20  # bytes of the device: below this nothing is left of an allocator's region for a step


def find_room(wanted: MemoryBudget) -> Room:
    """The room on this machine. Raises: CardError for a device that is not there, or more than there is."""
    with open_gpus() as gpus:  # those that CUDA_VISIBLE_DEVICES leaves
        total, has_gpu = (gpus[0].read_memory(holds=False).total, True) if gpus else (None, False)
    free = read_available_bytes()
    device: MemoryDevice = wanted.device if wanted.device != "auto" else "gpu" if has_gpu else "cpu-arena"
    if device == "gpu" and not has_gpu:
        raise CardError("memory.device: got gpu; there is none that is visible; allowed: cpu-arena")
    there = total if device == "gpu" else free
    if wanted.budget == "device" and there is None:
        raise CardError(
            "memory.budget: got device; this system does not tell how much memory is free; must be a number"
        )
    budget = there if wanted.budget == "device" else int(wanted.budget * GIB)
    assert budget is not None
    if there is not None and budget > there:
        raise CardError(f"memory.budget: got {budget / GIB:.3g} GiB; there are {there / GIB:.3g}")
    if budget * (1 - wanted.margin) < LEAST:
        raise CardError(
            f"memory.budget: got {budget / GIB:.3g} GiB, of which memory.margin leaves {1 - wanted.margin:.3g}; must "
            f"leave at least {LEAST / GIB:.3g} GiB"
        )
    return Room(device=device, budget=budget, margin=wanted.margin, ram=_find_ram(wanted.ram, free))


def _find_ram(wanted: float | str, free: int | None) -> int | None:
    """Bytes of the host's memory. Raises: CardError for more than the machine has."""
    if isinstance(wanted, str):
        return free
    ram, there = int(wanted * GIB), read_memory_bytes()
    if ram > there:
        raise CardError(f"memory.ram: got {wanted:.4g} GiB; this machine has {there / GIB:.4g}")
    return ram


def hash_named_files(card: AnyCard, kind: CardKind) -> dict[str, str]:
    """sha256 of the files that a card names, by full keys: what was measured with others is not taken up."""
    tree = to_json_tree(card)
    named = {
        ".".join((*outer, str(number), key)): mapping[key]
        for *outer, key in kind.files
        for number, mapping in enumerate(find_mappings(tree, outer))
        if isinstance(mapping, dict) and mapping.get(key)
    }
    paths = {key: Path(value) for key, value in named.items() if isinstance(value, str)}
    return {key: hash_file(path) for key, path in paths.items() if path.is_file()}


def forget_failures(log: TrialLog, timeout: float) -> None:
    """Let those be measured again that may go well now: faults, ends of the smallest batch, and what had less time."""
    for key, record in [*log.trials.items()]:
        end = find_end({"error": record["failed"]}) if "failed" in record else None
        if end is None or end.kind == "memory":
            continue
        had_less = end.is_timeout and timeout > record.get("timeout", timeout)
        if end.kind == "fault" or had_less or (key.endswith(" 1") and not end.is_timeout):
            del log.trials[key]


def _discard(held: DirectoryLock) -> None:
    """What this study has put into a folder, and the folder where it has made it."""
    shutil.rmtree(held.path / TRIALS, ignore_errors=True)
    (held.path / ENVIRONMENT).unlink(missing_ok=True)
    held.discard()


def _open_log(card: AnyCard, folder: Path) -> TrialLog:
    """What was measured of the card and its files until now. Raises: RunDirectoryError where it is of others."""
    workload = WORKLOADS.get_for_card(card)
    files = {**hash_named_files(card, workload.kind), **workload.hash_files(card)}
    log = TrialLog(folder, make_card_identity(card, {}) | {"files": files}, MEMORY_FILE)
    log.load()
    return log


def run_memory_study(
    card: AnyCard, output: Path, show: ShowCount, modes: Sequence[str] = ("train",), timeout: float = 600.0,
    command: Sequence[str] = COMMAND,
) -> dict[str, Any]:  # fmt: skip
    """Measure a card's memory and find its largest batch, and write memory.json and report.html; returns the report.

    What the folder has already is not measured again. Raises: CardError for a faulty card or one that cannot be
    measured, TrainingError where steps fail for another reason than memory, RunDirectoryError for the folder, Stopped
    when a signal came: what was measured until then is kept.
    """
    workload = WORKLOADS.get_offering("memory", card.workload)
    refuse_modes(modes)
    if has_run(output):
        raise RunDirectoryError(f"{output}: holds a run; choose another folder for a memory study")
    workload.refuse_memory(card, modes)
    wanted = card.memory or MemoryBudget()
    room = find_room(wanted)
    with Signals().listen() as signals, DirectoryLock(output) as held, signals.defer():
        log = _open_log(card, held.path)
        forget_failures(log, timeout)
        if log.choices is None:
            log.choices = asdict(room)
        room = Room(**log.choices)  # what is free changes from minute to minute
        write(held.path / ENVIRONMENT, collect_environment())
        tree = to_json_tree(card)
        report: dict[str, Any] = {
            "title": card.title,
            "unit": workload.memory_unit,
            "notes": [*workload.describe_memory(card)],
            "cores": count_cores(),
            "room": {**asdict(room), "limit": room.limit},
            "modes": {},
        }
        asker = MemoryAsker(
            tree=tree, room=room, log=log, signals=signals, show=show, timeout=timeout, command=command
        )  # fmt: skip
        for mode in modes:
            try:
                report["modes"][mode] = measure_mode(asker, mode)
            except CardError:
                if not log.trials:  # a card that no trial can measure leaves nothing
                    _discard(held)
                raise
            if command is COMMAND:  # what stands for trials has no step that could be traced
                batch, stopped = report["modes"][mode]["largest"]["batch"], lambda: signals.received is not None
                report["modes"][mode]["held"] = find_holders(card, mode, batch, log, stopped, timeout)
        log.save(report)
        write_text(held.path / PAGE, render_memory(report))
    return report
