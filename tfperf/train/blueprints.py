"""Programs traced for one stack and used by others of the same shape, each with its own tensors and variables.

Tracing takes a second, and Python does it for one stack after the other; looking up a hundred tensors takes a
millisecond.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from hashlib import sha256
from inspect import getclosurevars
from pathlib import PurePath
from threading import RLock
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import AnyArray
from tfperf.train.programs import Program

AttributePath = tuple[str | int, ...]  # attributes, keys and places in lists, from a holder to one of its tensors
Kind = tuple[tf.DType, tuple[int | None, ...]]
PLAIN = (
    bool, int, float, complex, str, bytes, range, slice, set, frozenset, type(None), CodeType, BuiltinFunctionType,
    np.ufunc, Enum, PurePath,
)  # fmt: skip
ARRAYS = (np.ndarray, np.generic)
KERAS = (tf.Variable, tf.Tensor, keras.Variable, keras.layers.Layer)


class Unread:
    """What no program reads, such as what the host alone works with: nothing that it holds is looked at."""


LEAVES = (Unread, *PLAIN, *ARRAYS, type, ModuleType, tf.DType, np.dtype, tf.TensorShape)  # hold nothing more
FOREIGN = ("pandas", "scipy", "builtins")  # hold what no attribute shows


def _list_children(holder: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(holder, Mapping):
        yield from ((str(key), value) for key, value in holder.items())
    elif isinstance(holder, (list, tuple)):
        yield from enumerate(holder)
    elif isinstance(holder, partial):
        yield from (("func", holder.func), ("args", holder.args), ("keywords", holder.keywords))
    elif isinstance(holder, MethodType):
        yield from (("self", holder.__self__), ("function", holder.__func__))
    elif isinstance(holder, FunctionType) and not _is_named(holder):
        yield from (("code", holder.__code__), ("defaults", holder.__defaults__), ("named", holder.__kwdefaults__))
        yield from getclosurevars(holder).nonlocals.items()
    elif not isinstance(holder, (*LEAVES, FunctionType)):
        yield from vars(holder).items() if hasattr(holder, "__dict__") else ()
        for name in (name for kind in type(holder).__mro__ for name in _list_slots(kind)):
            if hasattr(holder, name):
                yield name, getattr(holder, name)


def _is_named(one: Any) -> bool:
    """Whether it is a function that its module has under a name: there is one of it."""
    return isinstance(one, FunctionType) and "<" not in one.__qualname__


def _list_slots(kind: type) -> Sequence[str]:
    names = vars(kind).get("__slots__", ())
    return (names,) if isinstance(names, str) else [name for name in names if not name.startswith("__")]


def _walk(holder: Any, whole: tuple[type, ...] = (tf.Variable, tf.Tensor)) -> Iterator[tuple[AttributePath, Any]]:
    """All that an object holds, each once and on one of its shortest paths; what is plain wherever it is.

    Nothing is told of what objects of the types `whole` hold.
    """
    todo: list[tuple[AttributePath, Any]] = [((), holder)]
    seen: set[int] = set()
    for path, one in todo:
        if isinstance(one, PLAIN) or id(one) not in seen:
            yield path, one
            seen.add(id(one))
            if not isinstance(one, whole):
                todo += [((*path, name), child) for name, child in _list_children(one)]


def list_tensors(holder: Any) -> Iterator[tuple[AttributePath, tf.Tensor, Kind]]:
    """All tensors, and handles of variables: on which path, and of what type and shape."""
    for path, one in _walk(holder):
        if isinstance(one, (tf.Variable, tf.Tensor)):
            tensor = one.handle if isinstance(one, tf.Variable) else one
            yield path, tensor, (one.dtype, tuple(one.shape))


def list_constants(holder: Any, alike: Sequence[str] = ()) -> tuple[tuple[AttributePath, Any], ...]:
    """All that an object holds and Python may write into a program, and where: numbers, texts, code, NumPy's arrays.

    Of arrays kind and sha256, but for those in the attributes `alike`. None of Keras' layers but their arrays: their
    names carry counters. Of what cannot be looked into something that equals nothing else.
    """
    out: list[tuple[AttributePath, Any]] = []
    for path, one in _walk(holder, KERAS):
        mine = path[:1] not in [(name,) for name in alike]
        if isinstance(one, keras.layers.Layer):
            inner = _walk(vars(one), KERAS) if mine else ()
            out += [((*path, *more), _digest(array)) for more, array in inner if isinstance(array, ARRAYS)]
        elif isinstance(one, ARRAYS):
            out += [(path, _digest(one))] if mine else []
        elif isinstance(one, (slice, set)):  # which cannot be looked up
            out.append((path, repr(one) if isinstance(one, slice) else frozenset(one)))
        elif isinstance(one, PLAIN) or _is_named(one):
            out.append((path, one))
        elif mine and _is_opaque(one):
            out.append((path, object()))
    return tuple(out)


def _digest(array: AnyArray | np.generic) -> tuple[Any, ...]:
    content = repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
    return str(array.dtype), array.shape, sha256(content).hexdigest()


def _is_opaque(one: Any) -> bool:
    if isinstance(one, (*KERAS, *LEAVES, Mapping, list, tuple, partial, MethodType, FunctionType)):
        return False
    return type(one).__module__.split(".")[0] in FOREIGN or not (hasattr(one, "__dict__") or _list_slots(type(one)))


@dataclass(frozen=True)
class Blueprint:
    """A program without its tensors: where a holder has them, and what they must be."""

    program: Program
    captures: tuple[tuple[AttributePath, Kind] | tf.Tensor, ...]  # tensors: of no holder, the same for all

    @classmethod
    def make(cls, program: Program, holder: Any, shares: bool = False) -> Self | None:
        """The blueprint of a holder's program; None where the program works on what the holder does not hold.

        shares: all holders work on the same of that.
        """
        places = {id(tensor): (path, kind) for path, tensor, kind in list_tensors(holder)}
        found = [places.get(id(tensor), tensor) for tensor in program.captures]
        if not shares and any(isinstance(one, tf.Tensor) for one in found):
            return None
        bare = Program(program.function, [])  # the first holder may be gone before the blueprint is
        return cls(bare, tuple(found))

    def bind(self, holder: Any) -> Program | None:
        """The program with the tensors of another holder; None where those are missing, or of other shapes."""
        there = {path: (tensor, kind) for path, tensor, kind in list_tensors(holder)}
        tensors: list[tf.Tensor] = []
        for one in self.captures:
            tensor, kind = (one, None) if isinstance(one, tf.Tensor) else there.get(one[0], (None, None))
            if tensor is None or (kind is not None and kind != one[1]):
                return None
            tensors.append(tensor)
        return Program(self.program.function, tensors)


class Blueprints:
    """What was traced for holders of one shape. A program's key says all that it depends on but tensors of its holder.

    No array of one holder alone may be written into a program: what differs between holders of one key are tensors.
    """

    def __init__(self) -> None:
        self._lock = RLock()  # the first holder traces; the others wait, then need not
        self._known: dict[tuple[Any, ...], Blueprint] = {}

    def get_program(
        self, holder: Any, key: tuple[Any, ...], trace: Callable[[], Program], shares: bool = False
    ) -> Program:
        """The program of a holder: traced where no holder before left one that fits; shares: see `Blueprint.make`."""
        with self._lock:
            known = self._known.get(key)
            found = None if known is None else known.bind(holder)
            if found is None:
                found = trace()
                blueprint = Blueprint.make(found, holder, shares)
                if blueprint is not None:
                    self._known[key] = blueprint
        return found
