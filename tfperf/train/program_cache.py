"""What XLA compiled in earlier processes, given to TensorFlow when it starts; what it compiles is kept for later ones.

TensorFlow's persistent cache is pointed at its file system in memory, never at the disk: there a full or read-only disk
or a damaged file would fail the step, and a file could be changed after it was checked.
"""

import atexit
import logging
import os
import platform
import re
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import ClassVar, Literal

import tensorflow as tf
from tensorflow.python.eager import context

from tfperf.data.programs import ProgramFolder, get_user_flags, set_flags
from tfperf.measure.environment import count_cores, get_package_version, read_cpu_features, read_cpu_model
from tfperf.measure.quiet import LOG_LEVEL

LOGGER = logging.getLogger(__name__)
MEMORY = "ram://tfperf-programs"
# beside TF_XLA_FLAGS; config.proto, which TensorFlow's key has, holds the rest
SETTINGS = ("XLA_FLAGS", "TF_ENABLE_ONEDNN_OPTS", "TF_JITRT_FLAGS")
# the name of the module in a program, after the tag and the length of a string in a protocol buffer
FUNCTION = re.compile(rb"\n(?:[\x00-\x7f]|[\x80-\xff][\x01-\x7f])([ -Z\\-~]{1,500})\[_XlaMustCompile", re.DOTALL)


@dataclass
class ProcessPrograms:
    """The programs of this process; one TensorFlow has one place."""

    folder: ProgramFolder
    earlier: dict[str, bytes]  # those of earlier processes, and the name of each one's function

    pointed: ClassVar[bool] = False  # whether TensorFlow looks there
    current: ClassVar["ProcessPrograms | None"] = None
    lock: ClassVar[Lock] = Lock()

    def keep(self) -> None:
        """Write what was compiled, which is not needed in memory any more; note which of the earlier ones were used."""
        with self.lock, suppress(tf.errors.OpError):
            names = tf.io.gfile.listdir(MEMORY)
            new = [name for name in names if name.endswith(".pb") and name not in self.earlier]
            for name in new:
                self.folder.write(name, _read(name))
                tf.io.gfile.remove(f"{MEMORY}/{name}")
            has_function = context.context().has_function
            used = [name for name, function in self.earlier.items() if has_function(function)]
            self.folder.note_use(used)
            LOGGER.info("programs: %d of %d earlier ones used, %d new", len(used), len(self.earlier), len(new))
            if new:
                self.folder.shrink()


def point_tensorflow(mode: Literal["renew"] | bool) -> None:
    """Have TensorFlow look for programs in its memory, as engine.cache says: called before it is asked for its devices.

    Nothing happens where it was started before, or where the user has a cache of his own.
    """
    # of a TensorFlow that its user imported, with its log open: it would fill his screen, at each program that it finds
    loud = LOG_LEVEL not in os.environ
    if not mode or ProcessPrograms.pointed or loud or get_user_flags() is None or _is_started():
        return
    with set_flags(MEMORY):
        tf.config.list_physical_devices()  # it reads its flags now
    ProcessPrograms.pointed = True


def offer_programs(mode: Literal["renew"] | bool, threads: int) -> None:
    """Lay earlier programs where TensorFlow, started with so many threads, looks for them; keep those to come."""
    keep_programs()
    if not mode:
        ProcessPrograms.current = None
    elif ProcessPrograms.pointed and ProcessPrograms.current is None and (folder := _find_folder(threads)) is not None:
        ProcessPrograms.current = ProcessPrograms(folder, _offer(folder) if mode is True else {})
        atexit.register(keep_programs)


def keep_programs() -> None:
    """Keep what was compiled up to now for later processes; it is done once more when this one ends."""
    if ProcessPrograms.current is not None:
        ProcessPrograms.current.keep()


def _find_folder(threads: int) -> ProgramFolder | None:
    """The folder for this machine, these versions and settings."""
    settings = [get_user_flags(), *map(os.environ.get, SETTINGS)]
    machine = (read_cpu_model(), read_cpu_features(), platform.machine(), count_cores(), threads)
    return ProgramFolder.find(tf.__version__, get_package_version("keras"), *machine, *settings)


def _is_started() -> bool:
    """Whether TensorFlow was started, and so has read its flags."""
    return context.context()._context_handle is not None


def _offer(folder: ProgramFolder) -> dict[str, bytes]:
    """Lay the programs of a folder where TensorFlow looks; returns the name of each one's function."""
    programs = folder.read()
    if programs:
        tf.io.gfile.makedirs(MEMORY)
    for name, program in programs.items():
        with tf.io.gfile.GFile(f"{MEMORY}/{name}", "wb") as file:
            file.write(program)
    return {name: _find_function_name(program) for name, program in programs.items()}


def _find_function_name(program: bytes) -> bytes:
    """The name of the function that a program was compiled from; empty where it is not found."""
    found = FUNCTION.search(program)
    return found[1] if found else b""


def _read(name: str) -> bytes:
    with tf.io.gfile.GFile(f"{MEMORY}/{name}", "rb") as file:
        return bytes(file.read())
