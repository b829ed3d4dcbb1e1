"""Tensors without their numbers: buffers that are counted by reference, shapes, and values of small integers."""

from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from tfperf.arrays import AnyArray
from tfperf.measure.static_memory.arena import Arena

Shape = tuple[int, ...]


@dataclass(eq=False, slots=True)
class Buffer:
    """Bytes that an operation has asked for; `refs` tensors hold it. shape: of the tensor that it was made for."""

    size: int
    address: int
    chunk: int
    operation: str
    role: str
    shape: Shape
    refs: int = 1


@dataclass(eq=False, slots=True)
class Tensor:
    """A view of a buffer; width: bytes of an element; value: where it is small and known. buffer: None if empty."""

    buffer: Buffer | None
    shape: Shape
    width: int
    value: AnyArray | None = None

    @property
    def size(self) -> int:
        """In bytes."""
        return prod(self.shape) * self.width


@dataclass(eq=False, slots=True)
class TensorList:
    """TensorFlow's list of tensors; None: not set. Each of its handles is a reference."""

    items: "list[Tensor | None]"
    shape: Shape | None  # of an element
    width: int
    refs: int = 1


@dataclass(eq=False, slots=True)
class Variable:
    """A resource that holds a tensor, or one that holds none (tensor: None), as an iterator."""

    name: str
    tensor: Tensor | None = None


Value = Tensor | TensorList | Variable


class Event(NamedTuple):
    """A buffer came (+1) or went (-1)."""

    sign: int
    buffer: Buffer


@dataclass
class Heap:
    """Buffers in an arena, and when most was in use: after so many events."""

    arena: Arena = field(default_factory=Arena)
    events: list[Event] = field(default_factory=list)
    peak: int = 0
    peak_at: int = 0

    def create(self, size: int, operation: str, role: str, shape: Shape = ()) -> Buffer:
        """A buffer that the caller holds."""
        address = self.arena.allocate(size)
        made = Buffer(size, address, self.arena.get_size(address), operation, role, shape)
        self.events.append(Event(1, made))
        if self.arena.in_use > self.peak:
            self.peak, self.peak_at = self.arena.in_use, len(self.events)
        return made

    def make_tensor(self, shape: Shape, width: int, operation: str, role: str) -> Tensor:
        """A tensor with a buffer of its own."""
        made = Tensor(None, shape, width)
        made.buffer = self.create(made.size, operation, role, shape)
        return made

    def keep(self, value: Value) -> None:
        """One more reference."""
        if isinstance(value, Tensor):
            if value.buffer is not None:
                value.buffer.refs += 1
        elif isinstance(value, TensorList):
            value.refs += 1

    def release(self, value: Value) -> None:
        """One reference less; what nobody holds is freed."""
        if isinstance(value, Tensor):
            if value.buffer is not None:
                self._drop(value.buffer)
        elif isinstance(value, TensorList):
            value.refs -= 1
            if value.refs == 0:
                for item in value.items:
                    if item is not None:
                        self.release(item)

    def begin(self) -> None:
        """Count the peak from now on."""
        self.peak, self.peak_at = self.arena.in_use, len(self.events)

    def list_live(self) -> list[Buffer]:
        """What was there when most was in use."""
        live: dict[int, Buffer] = {}
        for event in self.events[: self.peak_at]:
            if event.sign > 0:
                live[id(event.buffer)] = event.buffer
            else:
                del live[id(event.buffer)]
        return list(live.values())

    def _drop(self, buffer: Buffer) -> None:
        buffer.refs -= 1
        if buffer.refs == 0:
            self.arena.release(buffer.address)
            self.events.append(Event(-1, buffer))


def is_alone(tensor: Tensor) -> bool:
    """Whether nobody else holds its buffer, so that a kernel may write its result there."""
    return tensor.buffer is not None and tensor.buffer.refs == 1
