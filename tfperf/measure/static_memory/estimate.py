"""The estimate of a traced step: bytes at the peak, the part that is always there, and who holds it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfperf.measure.static_memory.executor import Executor
from tfperf.measure.static_memory.heap import Buffer, Heap, Tensor, Value, Variable
from tfperf.measure.static_memory.kernels import CONSTANT, GIVEN, VARIABLE
from tfperf.measure.static_memory.program import Program, make_program
from tfperf.measure.static_memory.schedule import Schedule
from tfperf.measure.static_memory.shapes import UnknownSizeError

WORKERS = 2  # threads that run operations at once


@dataclass(frozen=True)
class StaticEstimate:
    """Bytes in use of TensorFlow's allocator at the peak of a step, and those that are there before and after it.

    buffers: alive at the peak. reason: why there is no estimate; peak is None then.
    """

    peak: int | None
    fixed: int | None
    buffers: Sequence[Buffer] = ()
    reason: str = ""


def estimate_step(concrete: Any, workers: int = WORKERS) -> StaticEstimate:
    """Of a ConcreteFunction, that nothing compiles with XLA."""
    program = make_program(concrete)
    try:
        found, has_unknown = _simulate(program, workers, True)
        if has_unknown:
            other, _ = _simulate(program, workers, False)
            found = max(found, other, key=lambda one: one.peak or 0)
    except UnknownSizeError as error:
        return StaticEstimate(None, None, reason=str(error))
    return found


def _simulate(program: Program, workers: int, branch: bool) -> tuple[StaticEstimate, bool]:
    """Two steps, one after the other: the first leaves the region as steps leave it. Whether a branch is unknown."""
    heap = Heap()
    given = _make_given(program, heap)
    executor = Executor(program, heap, given, branch)
    for _ in range(2):
        heap.begin()
        fixed = heap.arena.in_use
        executor.results = []
        Schedule(executor, workers).run()
        for value in executor.results:
            heap.release(value)
    return StaticEstimate(heap.peak, fixed, heap.list_live()), executor.has_unknown_branch


def _make_given(program: Program, heap: Heap) -> Mapping[str, Value]:
    """Variables and captured tensors, by the node that stands for each."""
    given: dict[str, Value] = {}
    for name, outer in program.variables.items():
        known = getattr(outer, "_handle_data", None)  # not public
        tensor = None
        if known is not None and known.is_set and len(known.shape_and_type) == 1:
            tensor = _make_tensor(heap, known.shape_and_type[0].shape, known.shape_and_type[0].dtype, name, VARIABLE)
        given[name] = Variable(name, tensor)
    for name, outer in program.captured.items():
        if outer.dtype.size:
            given[name] = _make_tensor(heap, outer.shape.as_proto(), outer.dtype.as_datatype_enum, name, GIVEN)
    return given


def _make_tensor(heap: Heap, shape: Any, kind: int, name: str, role: str) -> Tensor | None:
    import tensorflow as tf

    if shape.unknown_rank or any(one.size < 0 for one in shape.dim):
        return None
    width = tf.as_dtype(kind).size or 0
    return heap.make_tensor(tuple(one.size for one in shape.dim), width, name, role)


__all__ = ["CONSTANT", "StaticEstimate", "estimate_step"]
