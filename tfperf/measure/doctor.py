"""`tfperf doctor`: what works on this machine, and what to do about the rest."""

import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich.text import Text

from tfperf.console.screen import show
from tfperf.errors import AMISS, DONE
from tfperf.measure.environment import (
    count_cores,
    get_package_version,
    list_gpus,
    open_nvml,
    read_available_bytes,
    read_cpu_model,
    read_memory_bytes,
)

CheckState = Literal["ok", "warning", "missing"]
ProbeAnswers = Mapping[str, Mapping[str, Any]]
GB = 1e9
PYTHON = ((3, 11), (3, 14))  # from the first on, below the second, as setup.cfg says; so for the next two
TENSORFLOW = ((2, 21), (2, 22))
KERAS = ((3, 0), (4, 0))
MEMORY = 4 * GB  # a fit of a hundred replicas and its compilation
DISK = 1 * GB
PLUGIN = "tensorboard-plugin-profile"
PROBE_SECONDS = 300
PROBE = Path(__file__).with_name("probe.py")
COLOURS: Mapping[CheckState, str] = {"ok": "green", "warning": "yellow", "missing": "red"}


@dataclass(frozen=True)
class DoctorCheck:
    """One line: what was looked at, how it is, what was found, what to do. Without what is `needed` nothing runs."""

    name: str
    state: CheckState
    found: str
    advice: str = ""
    needed: bool = True


def check_machine() -> list[DoctorCheck]:
    """All checks; takes as long as TensorFlow takes to start and compile, some ten seconds."""
    answers, end = probe_tensorflow()
    return [
        check_python(platform.python_version()),
        check_tensorflow(answers, end),
        check_keras(answers),
        check_devices(answers),
        check_xla(answers, end),
        check_nvml(),
        check_memory(read_available_bytes()),
        check_disk("disk space here", os.getcwd),
        check_disk("disk space for temporary files", tempfile.gettempdir),
        check_hdf5(),
        check_plugin(),
    ]


def main(more: Callable[[], Sequence[DoctorCheck]] = tuple) -> int:
    """Print the checks, and `more`; 1 where something is missing without which nothing runs, else 0."""
    checks = [*check_machine(), *more()]
    for check in checks:
        show(format_check(check))
    return AMISS if any(c.needed and c.state == "missing" for c in checks) else DONE


def format_check(check: DoctorCheck) -> Text:
    """One check for the screen, as one line of plain text where it is piped."""
    text = Text.assemble((f"{check.state:8}", COLOURS[check.state]), f" {check.name}: {check.found}")
    return text.append(f"; {check.advice}" if check.advice else "")


def probe_tensorflow() -> tuple[ProbeAnswers, str]:
    """What probe.py told before it ended, and how it ended ("" if well)."""
    # -P: the folder of the script is no place to import from
    command = [sys.executable, "-P", "-W", "ignore", str(PROBE)]
    settings = {"TF_CPP_MIN_LOG_LEVEL": "3"} | os.environ
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=settings, timeout=PROBE_SECONDS, check=False)
        output, end = done.stdout, f"its process ended with {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired as late:
        output, end = _decode_output(late.stdout), f"no answer within {PROBE_SECONDS} s"
    answers: dict[str, Any] = {}
    for line in output.splitlines():
        if line.startswith("{"):
            answers |= json.loads(line)
    return answers, end


def check_python(version: str) -> DoctorCheck:
    """Python's version."""
    return _check_version("Python", version, PYTHON, "install a Python in this range")


def check_tensorflow(answers: ProbeAnswers, end: str) -> DoctorCheck:
    """TensorFlow can be imported, and is one that was tested."""
    answer = answers.get("tensorflow", {"error": f"cannot be imported: {end}"})
    if "error" in answer:
        return DoctorCheck(
            "TensorFlow", "missing", _get_first_line(answer["error"]), "pip install 'tensorflow>=2.21,<2.22'"
        )
    return _check_version("TensorFlow", answer["found"], TENSORFLOW, "pip install 'tensorflow>=2.21,<2.22'")


def check_keras(answers: ProbeAnswers) -> DoctorCheck:
    """Keras can be imported and computes with TensorFlow."""
    answer = answers.get("keras", {"error": "not reached"})
    if "error" in answer:
        advice = "unset KERAS_BACKEND, remove ~/.keras/keras.json, or pip install 'keras>=3'"
        return DoctorCheck("Keras", "missing", _get_first_line(answer["error"]), advice)
    version, backend = answer["found"]
    if backend != "tensorflow":
        found = f"{version} with backend {backend}"
        return DoctorCheck(
            "Keras", "missing", found, "set KERAS_BACKEND=tensorflow, or the same in ~/.keras/keras.json"
        )
    checked = _check_version("Keras", version, KERAS, "pip install 'keras>=3,<4'")
    return DoctorCheck("Keras", checked.state, f"{version}, backend tensorflow", checked.advice)


def check_devices(answers: ProbeAnswers) -> DoctorCheck:
    """What TensorFlow computes on; a GPU that only the driver sees is a warning."""
    answer = answers.get("devices", {"error": "not reached"})
    if "error" in answer:
        return DoctorCheck("devices", "missing", _get_first_line(answer["error"]), "mend TensorFlow first")
    found = f"{', '.join(answer['found'])}; {count_cores()} cores of {read_cpu_model()}"
    unused = [g["name"] for g in list_gpus()] if set(answer["found"]) == {"CPU"} else []
    if unused:
        advice = "pip install 'tfperf[gpu]', or CUDA_VISIBLE_DEVICES hides it"
        return DoctorCheck("devices", "warning", f"{found}; TensorFlow does not see the {unused[0]}", advice)
    return DoctorCheck("devices", "ok", found)


def check_xla(answers: ProbeAnswers, end: str) -> DoctorCheck:
    """XLA compiles a product and gets it right; without it a run falls back to plain graphs."""
    answer = answers.get("xla", {"error": end or "not reached"})
    advice = "set engine.xla: false in the card; runs take longer"
    if "error" in answer:
        return DoctorCheck("XLA", "missing", _get_first_line(answer["error"]), advice, needed=False)
    if answer["found"] != 285.0:
        return DoctorCheck("XLA", "warning", f"compiles, but takes 285 for {answer['found']}", advice)
    return DoctorCheck("XLA", "ok", "compiles, result right")


def check_nvml() -> DoctorCheck:
    """The library that measures NVIDIA GPUs."""
    advice = "needed only for NVIDIA GPUs: install their driver"
    try:
        with open_nvml() as library:
            names = [g["name"] for g in list_gpus()]
            driver = library.nvmlSystemGetDriverVersion()
    except ImportError:
        return DoctorCheck("NVML", "missing", "no module pynvml", "pip install nvidia-ml-py", needed=False)
    except Exception as error:  # NVMLError is only importable where pynvml is
        return DoctorCheck("NVML", "missing", str(error), advice, needed=False)
    return DoctorCheck("NVML", "ok", f"driver {driver}: {', '.join(names) or 'no GPU'}", needed=False)


def check_memory(available: int | None) -> DoctorCheck:
    """Memory to be had without swapping."""
    if available is None:
        return DoctorCheck(
            "memory", "warning", f"{read_memory_bytes() / GB:.1f} GB, n/a how much is free", "see the system's monitor"
        )
    found = f"{available / GB:.1f} of {read_memory_bytes() / GB:.1f} GB available"
    if available < MEMORY:
        return DoctorCheck(
            "memory", "warning", found, f"below {MEMORY / GB:.0f} GB: end other programs, or fit fewer replicas"
        )
    return DoctorCheck("memory", "ok", found)


def check_disk(name: str, find: Callable[[], str]) -> DoctorCheck:
    """Space in the folder that `find` gives, and the right to write there."""
    try:
        folder = find()
        free, writable = shutil.disk_usage(folder).free, os.access(folder, os.W_OK)
    except OSError as error:  # a full disk has no temporary folder, a removed one no size
        return DoctorCheck(name, "warning", str(error), "choose another folder")
    if not writable:
        return DoctorCheck(name, "warning", f"{free / GB:.1f} GB free, not writable", "choose another folder")
    if free < DISK:
        advice = f"below {DISK / GB:.0f} GB: make room, or choose another folder"
        return DoctorCheck(name, "warning", f"{free / GB:.1f} GB free", advice)
    return DoctorCheck(name, "ok", f"{free / GB:.1f} GB free")


def check_hdf5() -> DoctorCheck:
    """h5py reads back what it writes."""
    try:
        h5py = importlib.import_module("h5py")
        with h5py.File("check.h5", "w", driver="core", backing_store=False) as file:
            file.create_dataset("x", data=[1.0, 2.0], fletcher32=True)
            right = list(file["x"]) == [1.0, 2.0]
    except Exception as error:  # a binary that does not fit shows itself in many ways
        return DoctorCheck(
            "HDF5", "missing", _get_first_line(f"{type(error).__name__}: {error}"), "pip install --force-reinstall h5py"
        )
    found = f"h5py {h5py.__version__}, HDF5 {h5py.version.hdf5_version}"
    return DoctorCheck(
        "HDF5", "ok" if right else "missing", found, "" if right else "pip install --force-reinstall h5py"
    )


def check_extra(package: str, extra: str, purpose: str, module: str | None = None) -> DoctorCheck:
    """A package that tfperf brings by an extra, without which only one purpose is missed.

    module: what is imported, where it is not called as the package is.
    """
    advice = f"needed only for {purpose}: pip install 'tfperf[{extra}]'"
    try:
        importlib.import_module(module or package.replace("-", "_"))
    except Exception as error:  # a broken package is as good as none
        return DoctorCheck(
            package, "missing", _get_first_line(f"{type(error).__name__}: {error}"), advice, needed=False
        )
    return DoctorCheck(package, "ok", get_package_version(package) or "version n/a", needed=False)


def check_plugin() -> DoctorCheck:
    """TensorBoard's profile tab; not imported, since it loads TensorFlow, which may end the process."""
    version = get_package_version(PLUGIN)
    advice = "" if version else "needed only for the profile tab of `tfperf board`: pip install 'tfperf[profile]'"
    return DoctorCheck(PLUGIN, "ok" if version else "missing", version or "not installed", advice, needed=False)


def _check_version(
    name: str, version: str, allowed: tuple[tuple[int, int], tuple[int, int]], advice: str
) -> DoctorCheck:
    (lowest, above), number = allowed, tuple(int(part) for part in version.split(".")[:2])
    if lowest <= number < above:
        return DoctorCheck(name, "ok", version)
    limits = [".".join(map(str, limit)) for limit in allowed]
    return DoctorCheck(name, "warning", f"{version}; tested from {limits[0]} on, below {limits[1]}", advice)


def _get_first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else "no message"


def _decode_output(output: str | bytes | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""
