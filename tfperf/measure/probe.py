"""What TensorFlow can do here, told line by line in JSON.

A program of its own, run by its path: a TensorFlow built for another processor ends the process that imports it.
"""

import json
from collections.abc import Callable
from typing import Any


def print_result(name: str, find: Callable[[], Any]) -> None:
    """Print {name: what was found}, or the error."""
    try:
        found: Any = {"found": find()}
    except Exception as error:  # whatever it is, it is the answer
        found = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps({name: found}), flush=True)


def get_tensorflow_version() -> str:
    """Its version."""
    import tensorflow as tf

    return str(tf.__version__)


def get_keras_backend() -> list[str]:
    """Its version, and the backend that it is set to."""
    import keras

    return [keras.__version__, keras.backend.backend()]


def list_devices() -> list[str]:
    """Type of each device, and the maker's name of a GPU."""
    import tensorflow as tf

    gpus = [tf.config.experimental.get_device_details(d) for d in tf.config.list_physical_devices("GPU")]
    return ["CPU" for _ in tf.config.list_physical_devices("CPU")] + [str(g.get("device_name", "GPU")) for g in gpus]


def compute_with_xla() -> float:
    """0 + 1 + 4 + ... + 81 as a compiled product: 285."""
    import tensorflow as tf

    squares = tf.function(lambda x: tf.linalg.matvec(x[None, :], x)[0], jit_compile=True)
    return float(squares(tf.range(10, dtype=tf.float32)))


if __name__ == "__main__":
    print_result("tensorflow", get_tensorflow_version)
    print_result("keras", get_keras_backend)
    print_result("devices", list_devices)
    print_result("xla", compute_with_xla)
