"""Programs traced for one stack and used by others of the same shape, each with its own tensors and variables.

Tracing takes a second, and Python does it for one stack after the other; looking up a hundred tensors takes a
millisecond.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from threading import RLock
from types import FunctionType, ModuleType
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from tfperf.train.programs import Program

Path = tuple[str | int, ...]  # attributes, keys and places in lists, from a holder to one of its tensors
Kind = tuple[tf.DType, tuple[int | None, ...]]
PLAIN = (bool, int, float, str, bytes)


def _children(holder: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(holder, dict):
        yield from ((str(key), value) for key, value in holder.items())
    elif isinstance(holder, (list, tuple)):
        yield from enumerate(holder)
    elif hasattr(holder, "__dict__") and not isinstance(holder, (type, ModuleType, FunctionType)):
        yield from vars(holder).items()


def _held(holder: Any, whole: tuple[type, ...] = (tf.Variable, tf.Tensor)) -> Iterator[tuple[Path, Any]]:
    """All that an object holds, each once and on one of its shortest paths; numbers and texts wherever they are.

    Nothing is told of what objects of the types `whole` hold.
    """
    todo: list[tuple[Path, Any]] = [((), holder)]
    seen: set[int] = set()
    for path, one in todo:
        if isinstance(one, PLAIN) or id(one) not in seen:
            yield path, one
            seen.add(id(one))
            if not isinstance(one, whole):
                todo += [((*path, name), child) for name, child in _children(one)]


def _tensors(holder: Any) -> Iterator[tuple[Path, tf.Tensor, Kind]]:
    """All tensors, and handles of variables."""
    for path, one in _held(holder):
        if isinstance(one, (tf.Variable, tf.Tensor)):
            tensor = one.handle if isinstance(one, tf.Variable) else one
            yield path, tensor, (one.dtype, tuple(one.shape))


def plain(holder: Any, alike: Sequence[str] = ()) -> tuple[tuple[Path, Any], ...]:
    """All numbers and texts that an object holds, and where; none of Keras' layers, whose names carry counters.

    Of NumPy's arrays kind and sha256, since what is computed from them may be written into a program; not of those in
    the attributes `alike`.
    """
    whole = (tf.Variable, tf.Tensor, keras.layers.Layer, keras.Variable)
    out: list[tuple[Path, Any]] = []
    for path, one in _held(holder, whole):
        if isinstance(one, PLAIN):
            out.append((path, one))
        elif isinstance(one, (np.ndarray, np.generic)) and path[:1] not in [(name,) for name in alike]:
            out.append((path, (str(one.dtype), one.shape, sha256(one.tobytes()).hexdigest())))
    return tuple(out)


@dataclass(frozen=True)
class Blueprint:
    """A program without its tensors: where a holder has them, and what they must be."""

    program: Program
    captures: tuple[tuple[Path, Kind], ...]

    @classmethod
    def of(cls, program: Program, holder: Any) -> Self | None:
        """The blueprint of a holder's program; None where the program works on what the holder does not hold."""
        places = {id(tensor): (path, kind) for path, tensor, kind in _tensors(holder)}
        found = [places.get(id(tensor)) for tensor in program.captures]
        if None in found:
            return None
        bare = Program(program.function, [])  # the first holder may be gone before the blueprint is
        return cls(bare, tuple(place for place in found if place is not None))

    def carried_out(self, holder: Any) -> Program | None:
        """The program with the tensors of another holder; None where those are missing, or of other shapes."""
        there = {path: (tensor, kind) for path, tensor, kind in _tensors(holder)}
        found = [there.get(path, (None, None)) for path, _ in self.captures]
        if [kind for _, kind in found] != [kind for _, kind in self.captures]:
            return None
        return Program(self.program.function, [tensor for tensor, _ in found])


class Blueprints:
    """What was traced for holders of one shape. A program's key says all that it depends on but tensors of its holder.

    No array of one holder alone may be written into a program: what differs between holders of one key are tensors.
    """

    def __init__(self) -> None:
        self._lock = RLock()  # the first holder traces; the others wait, then need not
        self._known: dict[tuple[Any, ...], Blueprint] = {}

    def program(self, holder: Any, key: tuple[Any, ...], trace: Callable[[], Program]) -> Program:
        """The program of a holder: traced where no holder before left one that fits."""
        with self._lock:
            known = self._known.get(key)
            found = None if known is None else known.carried_out(holder)
            if found is None:
                found = trace()
                made = Blueprint.of(found, holder)
                if made is not None:
                    self._known[key] = made
        return found
