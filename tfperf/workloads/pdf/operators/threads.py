"""Linear algebra on one thread, for the many products of a few hundred rows that constants are made of.

BLAS shares out each of them over all cores, which then wait for each other by spinning: where something else runs
beside, that takes ten times the CPU seconds and more. On one thread bits do not depend on the number of cores, either.
"""

from contextlib import ContextDecorator
from functools import cache
from threading import Lock
from types import TracebackType
from typing import Any

import scipy.linalg  # noqa: F401  # brings a BLAS of its own, which the controller must find
from threadpoolctl import OpenBLASController, ThreadpoolController


@cache
def _find_blas() -> Any:
    """All BLAS libraries of this process; looking for them takes 10 ms."""
    return ThreadpoolController().select(user_api="blas")


class _OneThread(ContextDecorator):
    """Lets BLAS compute in the caller's thread as long as anyone is inside; then it has its threads again.

    The number is the process's: of those inside at the same time the first changes it, and the last puts it back.
    """

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0
        self._limits: Any = None

    def __enter__(self) -> "_OneThread":
        with self._lock:
            if not self._inside:
                self._limits = _find_blas().limit(limits=1)
            self._inside += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                # OpenBLAS listens to the thread that set the limit alone, which may not be the last one inside
                OpenBLASController.clear_controlling_thread(force=True)
                self._limits.restore_original_limits()
                OpenBLASController.clear_controlling_thread()


one_thread = _OneThread()
