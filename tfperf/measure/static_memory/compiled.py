"""What XLA would need for a compiled step: its own assignment of buffers, made by compiling without running."""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from tfperf.measure.static_memory.arena import round_size
from tfperf.measure.static_memory.heap import Shape
from tfperf.measure.static_memory.owners import HeldBuffer, find_kind, find_layer
from tfperf.measure.static_memory.result import ModelKind, StaticEstimate

BEGINS, GOES, SHARES = 0, 1, 2  # kinds of events of XLA's own simulation


def estimate_compiled(
    function: Any, specs: Sequence[Any], fixed: int, kind: ModelKind | None = None, optimizer: str = ""
) -> StaticEstimate:
    """Of a tf.function(jit_compile=True), for tensors of such specs; fixed: bytes of all that is there before.

    A step needs one region for all temporary tensors, results that take no variable's place, and what it is given.
    optimizer: its scope.
    """
    from tensorflow.compiler.xla.service import hlo_pb2

    found = hlo_pb2.HloProto()
    found.ParseFromString(function.experimental_get_compiler_ir(*specs)(stage="optimized_hlo_proto_serialized"))
    parts = [one.size for one in found.buffer_assignment.buffer_allocations if _needs_memory(one)]
    parts += [prod(one.shape) * one.dtype.size for one in specs]
    buffers = sorted(_list_live(found, optimizer), key=lambda one: -one.size)
    peak = fixed + sum(map(round_size, parts))
    return StaticEstimate(peak=peak, fixed=fixed, kind=kind, compiled=True, buffers=buffers)


def _needs_memory(allocation: Any) -> bool:
    """Whether TensorFlow's allocator gives it; what the program is given is there, constants are the program's."""
    return not (allocation.is_entry_computation_parameter or allocation.is_constant or allocation.is_thread_local)


def _list_live(found: Any, optimizer: str) -> Iterator[HeldBuffer]:
    """The temporary tensors that are alive where most bytes are, by XLA's own simulation."""
    instructions = {one.id: one for computation in found.hlo_module.computations for one in computation.instructions}
    buffers = {one.id: one for one in found.buffer_assignment.logical_buffers}
    traces = [one for one in found.buffer_assignment.heap_simulator_traces if one.whole_module_simulation]
    for key in _find_peak(traces[0].events, buffers) if traces else ():
        one = buffers[key]
        made = instructions[one.defined_at.instruction_id]
        name = made.metadata.op_name or made.name
        shape = _get_shape(made, one.defined_at.shape_index)
        yield HeldBuffer(one.size, name, find_layer(name), shape, find_kind(name, optimizer))


def _find_peak(events: Sequence[Any], buffers: Any) -> list[int]:
    """Those alive when most is. One that shares the place of another counts once."""
    live: dict[int, int] = {}  # how many share a place
    place: dict[int, int] = {}
    size = most = 0
    best: list[int] = []
    for event in events:
        key = event.buffer_id
        if event.kind == GOES:
            held = place.pop(key)
            live[held] -= 1
            if not live[held]:
                del live[held]
                size -= buffers[held].size
            continue
        held = place[key] = place.get(event.share_with_canonical_id, key) if event.kind == SHARES else key
        size += 0 if held in live else buffers[held].size
        live[held] = live.get(held, 0) + 1
        if size > most:
            most, best = size, [*live]
    return best


def _get_shape(made: Any, index: Sequence[int]) -> Shape:
    """Of an instruction's result, or of a part of it."""
    shape = made.shape
    for place in index:
        shape = shape.tuple_shapes[place]
    return tuple(shape.dimensions)
