"""In which order operations run: the executor's threads, each with a queue of its own, on a clock that is estimated.

Source: ExecutorState::ScheduleReady and Eigen's thread pool, as TensorFlow 2.21 has them: a thread goes on with what it
has made ready itself, the newest first; one without work takes the oldest of another.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from tfperf.measure.static_memory.executor import Executor
from tfperf.measure.static_memory.frames import Task
from tfperf.measure.static_memory.heap import Tensor, Value

CHEAP = frozenset((
    "Const", "VarHandleOp", "Placeholder", "Identity", "Reshape", "Switch", "Merge", "Enter", "Exit", "NextIteration",
    "LoopCond", "Shape", "ShapeN", "Size", "Rank", "ReadVariableOp", "NoOp", "ExpandDims", "Squeeze", "StopGradient",
    "Bitcast", "ControlTrigger", "EnsureShape", "PreventGradient",
))  # fmt: skip
PRODUCTS = frozenset((
    "MatMul", "_FusedMatMul", "BatchMatMulV2", "Einsum", "Conv2D", "_FusedConv2D", "Conv2DBackpropInput",
    "Conv2DBackpropFilter",
))  # fmt: skip
SMALL = 4096  # bytes of inputs, which take less than the 8000 cycles at which the executor counts an operation as cheap
OVERHEAD, BANDWIDTH, PRODUCT_FACTOR = (
    4e-6,
    4e9,
    4.0,
)  # seconds, bytes a second, how much slower products go through bytes


@dataclass
class ExecutorThread:
    """A thread: what it does itself next, and what others may take."""

    inline: deque[Task] = field(default_factory=deque)
    queue: deque[Task] = field(default_factory=deque)
    busy: bool = False


class ThreadSchedule:
    """Runs an executor to its end."""

    def __init__(self, executor: Executor, threads: int) -> None:
        self._executor = executor
        self._threads = [ExecutorThread() for _ in range(threads)]
        self._running: list[tuple[float, int, ExecutorThread, Task, Sequence[Value | None], list[Tensor]]] = []
        self._count, self._now = 0, 0.0

    def run(self) -> None:
        """Until nothing is ready. Raises: UnknownSizeError."""
        for place, task in enumerate(self._executor.begin()):
            self._threads[place % len(self._threads)].queue.append(task)
        self._start_idle()
        while self._running:
            self._now, _, thread, task, results, temporary = heapq.heappop(self._running)
            self._finish(thread, task, results, temporary)
            self._start_idle()

    def _start_idle(self) -> None:
        """Give work to those without."""
        for thread in self._threads:
            if not thread.busy and (task := self._find(thread)) is not None:
                self._start(thread, task)

    def _find(self, thread: ExecutorThread) -> Task | None:
        if thread.inline:
            return thread.inline.popleft()
        if thread.queue:
            return thread.queue.popleft()
        for other in self._threads:
            if other.queue:
                return other.queue.pop()
        return None

    def _start(self, thread: ExecutorThread, task: Task) -> None:
        """What costs nothing is done at once."""
        results, temporary = ([], []) if task.dead else self._executor.start(task)
        thread.busy = True
        seconds = 0.0 if task.dead or task.node.op in CHEAP else _estimate_seconds(task, results)
        self._count += 1
        heapq.heappush(self._running, (self._now + seconds, self._count, thread, task, results, temporary))

    def _finish(
        self, thread: ExecutorThread, task: Task, results: Sequence[Value | None], temporary: list[Tensor]
    ) -> None:
        thread.busy = False
        expensive: list[Task] = []
        for one in self._executor.finish(task, list(results), temporary):
            if one.dead or _is_cheap(one):
                thread.inline.append(one)
            else:
                expensive.append(one)
        if expensive and not thread.inline:
            thread.inline.append(expensive.pop())
        thread.queue.extendleft(expensive)


def _is_cheap(task: Task) -> bool:
    """Whether the executor does it at once: by its kind, and in loops, of which it learns what operations cost."""
    if task.node.op in CHEAP:
        return True
    if task.place.frame.parent is None:
        return False
    inputs = task.place.inputs.get(task.node.index, ())
    return all(one.size <= SMALL for one in inputs if isinstance(one, Tensor))


def _estimate_seconds(task: Task, results: Sequence[Value | None]) -> float:
    """Of its bytes alone."""
    inputs = task.place.inputs.get(task.node.index, ())
    size = sum(one.size for one in (*inputs, *results) if isinstance(one, Tensor))
    return OVERHEAD + size / BANDWIDTH * (PRODUCT_FACTOR if task.node.op in PRODUCTS else 1.0)
