"""What of the machine the bits of a training depend on. Imports TensorFlow."""

from typing import Any

import tensorflow as tf

from tfperf.errors import RunDirectoryError
from tfperf.measure.environment import count_cores, get_program_version, read_cpu_model


def use_threads(wanted: int, fixed: bool = False) -> int:
    """Give TensorFlow's operations `wanted` threads; returns how many they have.

    A TensorFlow that already runs keeps its number: RunDirectoryError when that is not the wanted one and it is fixed.
    """
    try:
        tf.config.threading.set_intra_op_parallelism_threads(wanted)
        return wanted
    except RuntimeError:
        # 0, the default, stands for one per core
        now = tf.config.threading.get_intra_op_parallelism_threads() or count_cores()
        if fixed and now != wanted:
            raise RunDirectoryError(
                f"engine.threads: {wanted} are wanted, but TensorFlow already runs with {now} in this process; "
                "call tfperf before any other TensorFlow code, or in a process of its own"
            ) from None
        return now


def make_machine_record(threads: int) -> dict[str, Any]:
    """What bits can depend on beside the choices; starts TensorFlow."""
    return make_host_record() | {"threads": threads, "devices": [d.name for d in tf.config.list_logical_devices()]}


def make_host_record() -> dict[str, Any]:
    """What of it is known before TensorFlow starts."""
    return {"cpu": read_cpu_model(), "tensorflow": tf.__version__, "tfperf": get_program_version()}
