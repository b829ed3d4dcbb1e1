"""What was measured for a card on this machine, kept for its next run: two runs then take the same choices.

A file holds the choices and the sha256 of their text. What is damaged, or not of this user, is measured again.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import keras
import tensorflow as tf

from tfperf.data.cache import digest, digest_code, find_cache_folder, make_private, replace_file
from tfperf.measure.environment import count_cores, read_cpu_model
from tfperf.results.reading import parse_json, read_bytes
from tfperf.train.choices import MOST_STEPS, Choices
from tfperf.train.cores import Cores
from tfperf.train.program_cache import point_tensorflow
from tfperf.train.settings import Settings

MOST_BYTES = 10**6  # of a file


def _list_gpus(mode: Literal["renew"] | bool) -> list[str]:
    """Names of the GPUs; TensorFlow is not started by asking, but reads its flags."""
    point_tensorflow(mode)
    gpus = tf.config.list_physical_devices("GPU")
    return [str(tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name)) for gpu in gpus]


def find_path(mode: Literal["renew"] | bool, training: str | None, cores: Cores | None) -> Path | None:
    """The file for the choices of a training; None: nothing is kept.

    training: digest of all of the card, its data and the code that may matter, None: not known; cores: None where they
    are chosen, too. The file's name stands for these, the machine and the program.
    """
    folder = find_cache_folder()
    if not mode or folder is None or training is None:
        return None
    key = digest(
        read_cpu_model(), count_cores(), _list_gpus(mode), cores, tf.__version__, keras.__version__,
        digest_code(__name__), training,
    )  # fmt: skip
    return folder / "choices" / f"{key}.json"


def read(settings: Settings, path: Path | None, forms: Collection[str], layouts: Collection[str]) -> Choices | None:
    """The choices kept in a file; None where there are none, or the card wants them renewed, or the file is damaged.

    forms, layouts: names that choices may have.
    """
    if path is None or settings.cache is not True:
        return None
    with suppress(OSError, ValueError, LookupError, TypeError):
        found = parse_json(read_bytes(path, MOST_BYTES, own=True))
        if found["sha256"] == _digest_choices(found["choices"]):
            choices = Choices.from_dict(found["choices"], forms, layouts)
            most = MOST_STEPS if settings.steps_per_call == "auto" else settings.steps_per_call
            return replace(choices, cached=True) if choices.steps_per_call <= min(most, settings.steps) else None
    return None


def _digest_choices(choices: Any) -> str:
    """Of the choices as JSON text, whatever their order and blanks in the file."""
    return hashlib.sha256(json.dumps(choices, sort_keys=True).encode()).hexdigest()


def write(path: Path | None, choices: Choices) -> Sequence[str]:
    """Write the choices for the next run; returns warnings."""
    if path is None:
        return ()
    try:
        make_private(path.parent)
        content = {"sha256": _digest_choices(asdict(choices)), "choices": asdict(choices)}
        with replace_file(path) as temporary:
            temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        return (f"choices are not kept for the next run: {error.strerror or error}: {path}",)
    return ()
