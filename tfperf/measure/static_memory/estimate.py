"""The estimate of a traced step by liveness: bytes at the peak, the part that is always there, and who holds it."""

from collections.abc import Collection, Mapping
from math import prod
from typing import Any

from tfperf.errors import UnknownSizeError
from tfperf.measure.static_memory.executor import Executor
from tfperf.measure.static_memory.heap import Heap, Value, Variable
from tfperf.measure.static_memory.kernels import GIVEN, VARIABLE
from tfperf.measure.static_memory.owners import describe_buffers
from tfperf.measure.static_memory.program import OptimizedGraph, make_program
from tfperf.measure.static_memory.result import ModelKind, StaticEstimate, find_model_kind
from tfperf.measure.static_memory.schedule import ThreadSchedule

THREADS = 2  # threads that run operations at once
STEPS, LONG = 4, 20_000  # steps; operations of them, after which no further one is begun


def estimate_step(
    concrete: Any, held: Collection[tuple[int, ...]] = (), slots: Collection[str] = (), optimizer: str = "",
    threads: int = THREADS,
) -> StaticEstimate:  # fmt: skip
    """Of a ConcreteFunction, of which XLA compiles nothing; it is not run.

    held: bytes of tensors that are there beside what the function captures, a tuple of each. slots: names of the
    optimizer's variables; optimizer: its scope. Source: TensorFlow's executor, kernels and allocator, as `executor.py`,
    `kernels.py` and `arena.py` have them.
    """
    return estimate_program(make_program(concrete), find_model_kind(concrete), held, slots, optimizer, threads)


def estimate_program(
    program: OptimizedGraph, kind: ModelKind | None, held: Collection[tuple[int, ...]] = (),
    slots: Collection[str] = (), optimizer: str = "", threads: int = THREADS,
) -> StaticEstimate:  # fmt: skip
    """The same of the graph that TensorFlow makes of such a function."""
    sizes = [prod(one) for one in held]
    try:
        heap, fixed, has_unknown = _run_steps(program, sizes, threads, True)
        if has_unknown:
            other = _run_steps(program, sizes, threads, False)
            heap, fixed = max((heap, fixed), other[:2], key=lambda one: one[0].peak)
    except UnknownSizeError as error:
        return StaticEstimate(peak=None, fixed=None, kind=kind, compiled=False, reason=str(error))
    names = {name: variable.name for name, variable in program.variables.items()}
    buffers = describe_buffers(program, heap.list_live(), names, slots, optimizer)
    return StaticEstimate(peak=heap.peak, fixed=fixed, kind=kind, compiled=False, buffers=buffers)


def _run_steps(program: OptimizedGraph, held: Collection[int], threads: int, branch: bool) -> tuple[Heap, int, bool]:
    """Some steps, one after the other, and whether a branch is unknown.

    The peak is that of the step that needs least, as in measurements; the first leaves the region as steps leave it.
    """
    heap = Heap()
    given = _make_given(program, heap)
    for size in held:
        heap.create(size, "", GIVEN)
    executor = Executor(program, heap, given, branch)
    fixed, peaks = heap.arena.in_use, list[tuple[int, int]]()
    while executor.steps < STEPS and executor.runs <= LONG:
        heap.begin()
        ThreadSchedule(executor, threads).run()
        peaks.append((heap.peak, heap.peak_at))
        results, executor.results = executor.results, []
        for value in results:
            heap.release(value)
    heap.peak, heap.peak_at = min(peaks[1:] or peaks)
    return heap, fixed, executor.has_unknown_branch


def _make_given(program: OptimizedGraph, heap: Heap) -> Mapping[str, Value]:
    """Variables and captured tensors, by the node that stands for each."""
    given: dict[str, Value] = {}
    for name, one in program.variables.items():
        tensor = None if one.shape is None else heap.make_tensor(one.shape, one.width, name, VARIABLE)
        given[name] = Variable(name, tensor)
    for name, one in program.captured.items():
        if one.shape is not None:
            given[name] = heap.make_tensor(one.shape, one.width, name, GIVEN)
    for node in program.nodes:  # what the caller gives, and keeps
        if node.op == "Placeholder" and node.name not in given:
            if not node.widths[0]:
                given[node.name] = Variable(node.name)
            elif node.shapes[0] is not None:
                given[node.name] = heap.make_tensor(node.shapes[0], node.widths[0], node.name, GIVEN)
    return given
