"""What runs inside a Dask worker."""

import os
from collections.abc import Mapping
from threading import Event
from typing import Any

from tfperf.cluster.team import RunTask

# Dask limits these in its workers, and in the process that starts them; a trial must not inherit that
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MALLOC_TRIM_THRESHOLD_")
STOP = Event()  # of this worker process


def get_thread_settings() -> dict[str, str | None]:
    """This process' settings of threads; None: not set."""
    return {name: os.environ.get(name) for name in THREADS}


def adopt(settings: Mapping[str, str | None]) -> None:
    """Set this process' threads so."""
    for name, value in settings.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def call(run_task: RunTask, task: Any, settings: Mapping[str, str | None]) -> Any:
    """Carry out a task with the settings of the process that gave it."""
    adopt(settings)
    return run_task(task, STOP)


def call_aside(run_task: RunTask, task: Any, settings: Mapping[str, str | None]) -> Any:
    """The same for a task that lasts as long as the worker may: others can be given to the worker beside it."""
    from distributed import secede

    secede()
    return call(run_task, task, settings)


def halt() -> None:
    """End what is under way, and all that would come."""
    STOP.set()


def is_ready() -> bool:
    """Whether the worker can import this package."""
    return True
