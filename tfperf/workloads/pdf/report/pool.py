"""The pictures of a page, drawn in several processes beside each other."""

import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread

from tfperf.measure.environment import count_cores
from tfperf.measure.loading import pause_collector
from tfperf.workloads.pdf.report.draw import receive, send
from tfperf.workloads.pdf.report.pictures import PictureKey, draw, list_pictures
from tfperf.workloads.pdf.results.record import FitResult

MOST = 7  # processes beside this one: a page has not many more pictures
PATIENCE_SECONDS = 10.0  # for the last pictures of the others; a picture takes half a second
COMMAND = ("-P", "-m", "tfperf.workloads.pdf.report.draw")
# they draw: no threads for linear algebra, and no GPU
SETTINGS = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass
class DrawingPool:
    """This process and, for each further core, one that draws; a context that ends them, whatever happens in it.

    They are programs of their own (draw.py): nothing of this process is forked, and a user's script is not imported
    again. They die with this process, since their input ends then. Where one cannot be started, dies, or does not
    answer, what it was to draw is drawn here. One picture is the same bytes wherever it is drawn.
    """

    most: int | None = None  # processes beside this one, by default one for each further core

    def __post_init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] | None = None

    def start(self) -> None:
        """Start the processes: before there is a result, so that they are ready when it comes."""
        if self._processes is not None:
            return
        self._processes = []
        most = min(MOST, count_cores() - 1) if self.most is None else self.most
        with suppress(OSError):  # no memory, no more processes, or no interpreter
            for _ in range(most):
                self._processes.append(_start_process())

    def draw(self, result: FitResult) -> dict[PictureKey, bytes]:
        """All pictures of the page of a result, as PNG files."""
        from tfperf.report.style import apply_style

        self.start()
        wanted = list_pictures(result)
        todo, found = deque(wanted), dict[PictureKey, bytes]()
        content = pickle.dumps(replace(result, weights={}, summary=dict(result.summary)))
        threads = [Thread(target=_let_draw, args=(o, content, todo, found), daemon=True) for o in self._processes or ()]
        for thread in threads:
            thread.start()
        with apply_style(), pause_collector():  # a picture makes 10^5 objects
            for picture in _pop_pictures(todo):
                found[picture] = draw(result, picture)
            for thread in threads:
                thread.join(PATIENCE_SECONDS)
            return {p: found[p] if p in found else draw(result, p) for p in wanted}

    def __enter__(self) -> "DrawingPool":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes or ():
            process.kill()
        for process in self._processes or ():
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # what was not written yet
                    pipe and pipe.close()
        self._processes = None


def _start_process() -> "subprocess.Popen[bytes]":
    # the program may run from a folder that is not installed
    path = os.pathsep.join([str(Path(__file__).parents[4]), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, *COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={**os.environ, **SETTINGS, "PYTHONPATH": path},
    )  # fmt: skip


def _pop_pictures(todo: deque[PictureKey]) -> Iterable[PictureKey]:
    """Pictures that nobody has begun, one after the other."""
    with suppress(IndexError):
        while True:
            yield todo.popleft()


def _let_draw(
    process: "subprocess.Popen[bytes]", content: bytes, todo: deque[PictureKey], found: dict[PictureKey, bytes]
) -> None:
    """Have another process draw until nothing is left, or until it fails."""
    assert process.stdin is not None and process.stdout is not None
    with suppress(OSError, ValueError):  # it is dead, or its pipes are closed
        send(process.stdin, content)
        for picture in _pop_pictures(todo):
            send(process.stdin, pickle.dumps(picture))
            png = receive(process.stdout)
            if png is None:
                return
            found[picture] = png
