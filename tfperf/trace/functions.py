"""What the compiled functions of a running program tell: why they were traced, and what of them is constant.

Looks at TensorFlow's own objects; imports it.
"""

import gc
import inspect
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from types import FunctionType, MethodType
from typing import Any

from tfperf.trace.live_graphs import CALL, PASSED_ON, READ, find_outermost, link_captures, list_graphs
from tfperf.trace.notes import FIRST_CALL, KERAS_OPTIMIZERS, MADE_ANEW

MOST_NAMES = 20  # of functions that one holds
MATRIX, LARGEST = 2, 2**24  # dimensions; bytes of what is read to see whether it changes
LARGEST_WEIGHT = 2**28  # bytes of a weight of which a row is read: a read may copy all of it
WHOLE = b"whole:"  # begins the digest of a matrix
Samples = Mapping[int, bytes]  # the first row of a variable, by its resource (id)


@dataclass(frozen=True)
class SeenFunctions:
    """Functions at a moment. counts: by their ids how many signatures each is traced for; traced: names of such."""

    counts: Mapping[int, int] = field(default_factory=dict)
    traced: frozenset[str] = frozenset()


def list_functions() -> list[Any]:
    """All tf.functions that are alive."""
    from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

    return [one for one in gc.get_objects() if issubclass(type(one), Function)]


def list_seen(functions: Iterable[Any] | None = None) -> SeenFunctions:
    """How often functions have been traced up to now; by default all, which takes 0.1 s to look for."""
    every = list_functions() if functions is None else list(functions)
    counts = {id(one): len(_list_signatures(one)) for one in every}
    return SeenFunctions(counts, frozenset(_get_full_name(one) for one in every if counts[id(one)]))


def list_traces(before: SeenFunctions) -> list[dict[str, str]]:
    """The functions that were traced since then: name, and why."""
    out = []
    for one in list_functions():
        found = _list_signatures(one)
        for i in range(before.counts.get(id(one), 0), len(found)):
            cause = describe_cause(found[:i], found[i])
            if cause == FIRST_CALL and _get_full_name(one) in before.traced:
                cause = MADE_ANEW
            out.append({"function": _get_name(one.python_function), "cause": cause})
    return out


def _get_full_name(function: Any) -> str:
    """With where it is defined, and the functions and methods that it was given: Keras makes all models' alike."""
    names, left, seen = list[str](), [function], set[int]()
    while left and len(names) < MOST_NAMES:
        one = left.pop(0)
        inner = getattr(one, "python_function", one)
        if id(inner) not in seen:
            seen.add(id(inner))
            owner = id(inner.__self__) if isinstance(inner, MethodType) else ""
            names.append(
                f"{owner}{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', _get_name(inner))}"
            )
            plain = getattr(inner, "__func__", inner)
            with suppress(TypeError, ValueError):  # no function of Python's, or one that holds what is not there yet
                left += [one for one in inspect.getclosurevars(plain).nonlocals.values() if _is_function(one)]
    return " ".join(names)


def _is_function(value: Any) -> bool:
    return isinstance(value, FunctionType | MethodType) or hasattr(type(value), "python_function")


def _get_name(function: Any) -> str:
    """As its calls are named in a profile; of an object that can be called its class."""
    return str(getattr(function, "__name__", type(function).__name__))


def _list_signatures(function: Any) -> list[Mapping[str, Any]]:
    """Types of the arguments, by name, of each trace in order."""
    # not by its own method, which traces functions with an input signature
    found = function._function_cache.values()
    return [{name: p.type_constraint for name, p in c.function_type.parameters.items()} for c in found]


def describe_cause(earlier: Sequence[Mapping[str, Any]], new: Mapping[str, Any]) -> str:
    """What sets a signature apart from the nearest of the earlier ones."""
    if not earlier:
        return FIRST_CALL
    differences = [[name for name in new if old.get(name) != new[name]] for old in earlier]
    fewest = min(range(len(earlier)), key=lambda i: len(differences[i]))
    said = [_describe_difference(name, earlier[fewest].get(name), new[name]) for name in differences[fewest]]
    return "; ".join(said) or "a new variable, or another device or context"


def _describe_difference(name: str, old: Any, new: Any) -> str:
    for what in ("shape", "dtype"):
        was, now = getattr(old, what, None), getattr(new, what, None)
        if was is not None and now is not None and was != now:
            return f"new {what} of {name}: {_shorten(now)}, was {_shorten(was)}"
    kinds = {type(old).__name__, type(new).__name__}
    if kinds == {"Literal"}:
        return f"new Python value of {name}: {new.value!r}, was {old.value!r}"
    if kinds == {"Weakref"}:
        return f"another Python object as {name}"
    was, now = (_list_parts(name, one) if type(old) is type(new) else {} for one in (old, new))
    if was and was.keys() == now.keys():
        return "; ".join(_describe_difference(one, was[one], now[one]) for one in now if was[one] != now[one])
    if len(was) != len(now):
        return f"new length of {name}: {len(now)}, was {len(was)}"
    if was:
        return f"other keys of {name}"
    return f"new type of {name}: {_shorten(new)}, was {_shorten(old)}"


def _list_parts(name: str, kind: Any) -> dict[str, Any]:
    """The types of what a list, tuple or dict holds, by name."""
    mapping = getattr(kind, "mapping", None)
    if isinstance(mapping, Mapping):
        return {f"{name}[{key!r}]": part for key, part in mapping.items()}
    held = getattr(kind, "components_tuple", getattr(kind, "attributes", kind))  # of a list, of a named tuple
    return {f"{name}[{i}]": part for i, part in enumerate(getattr(held, "components", ()))}


def _shorten(value: Any) -> str:
    text = str(getattr(value, "name", None) or value)
    return text if len(text) < 80 else f"{text[:77]}..."


def sample_untrained() -> Samples:
    """The first row of each of Keras' weights that are not to be trained, and the digest of each other such matrix.

    What cannot be read, or is larger than LARGEST_WEIGHT or LARGEST, is left out; other variables are mostly numbers
    that Python assigns.
    """
    from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

    keras = sys.modules.get("keras")
    kinds = (BaseResourceVariable,) if keras is None else (BaseResourceVariable, keras.Variable)
    every = [one for one in gc.get_objects() if issubclass(type(one), kinds)]
    found: dict[int, bytes] = {}
    owned = set[int]()
    for one in (one for one in every if not isinstance(one, BaseResourceVariable)):
        with suppress(Exception):  # not built, of several devices, without rows, or of a type that a device cannot take
            value = one.value
            owned.add(id(value.handle))
            if not one.trainable and value.shape.num_elements() * value.dtype.size <= LARGEST_WEIGHT:
                # to gather the row would have TensorFlow copy the table in every read since then
                whole = value.read_value()
                row = whole[0] if value.shape.rank else whole
                found[id(value.handle)] = row.numpy().tobytes()
    for one in (one for one in every if isinstance(one, BaseResourceVariable)):
        with suppress(Exception):
            is_matrix = one.shape.rank >= MATRIX and one.shape.num_elements() * one.dtype.size <= LARGEST
            if not one.trainable and is_matrix and id(one.handle) not in owned:
                found[id(one.handle)] = WHOLE + sha256(one.read_value().numpy().tobytes()).digest()
    return found


def find_frozen(graphs: Iterable[Any], before: Samples | None = None) -> set[int]:
    """Resources (ids) of variables that are not to be trained, and that no operation in any of the graphs changes.

    before: samples of an earlier moment: what Python has assigned since then is not among them, nor is a matrix that
    is none of Keras' weights and has no earlier sample.
    """
    now, every, changed = sample_untrained(), list(graphs), set[int]()
    captures = link_captures(every)
    earlier = now if before is None else before
    for operation in (one for graph in every for one in graph.get_operations()):
        if not READ.fullmatch(operation.type) and not CALL.fullmatch(operation.type):
            changed |= {id(find_outermost(one, captures)) for one in operation.inputs if one.dtype.name == "resource"}
    out = {one for one, row in now.items() if one not in changed and earlier.get(one, row) == row}
    return {one for one in out if not now[one].startswith(WHOLE) or one in (before or {})}


def find_constant_operations(graphs: Iterable[Any] | None = None, before: Samples | None = None) -> set[str]:
    """Names of the operations in graphs of functions, by default all, that depend on nothing that changes.

    A captured tensor is a constant, a captured variable only where it is frozen. What has side effects or draws numbers
    is none, nor is a name that is something else in another function.
    """
    known: dict[int, set[int]] = {}
    every = list_graphs() if graphs is None else list(graphs)
    frozen = find_frozen(every, before)
    found = [_split_operations(graph, known, frozen) for graph in every]
    return {name for names, _ in found for name in names} - {name for _, names in found for name in names}


def _split_operations(graph: Any, known: dict[int, set[int]], frozen: Collection[int]) -> tuple[list[str], list[str]]:
    """Names of a graph's operations that are constant, and of the others.

    known: constant tensors (ids) by graph; frozen: resources (ids) of variables that are constant.
    """
    tensors = known.setdefault(id(graph), set())
    names: tuple[list[str], list[str]] = ([], [])
    for outer, inner in getattr(graph, "captures", ()):
        if id(outer) in frozen or (
            inner.dtype.name not in ("resource", "variant") and _is_constant(outer, known, frozen)
        ):
            tensors.add(id(inner))
    for operation in graph.get_operations():  # inputs come before what they feed
        fed = operation.type == "Const" or bool(
            operation.inputs
            and (not operation.op_def.is_stateful or READ.fullmatch(operation.type))
            and all(id(tensor) in tensors for tensor in operation.inputs)
        )
        if fed:
            tensors.update(id(tensor) for tensor in operation.outputs)
        if operation.type not in PASSED_ON:
            names[not fed].append(operation.name)
    return names


def _is_constant(tensor: Any, known: dict[int, set[int]], frozen: Collection[int]) -> bool:
    graph = getattr(tensor, "graph", None) if hasattr(type(tensor), "graph") and not hasattr(tensor, "numpy") else None
    if graph is None:
        return True  # a tensor with a value
    if id(graph) not in known:
        _split_operations(graph, known, frozen)
    return id(tensor) in known[id(graph)]


def find_optimizers() -> set[str]:
    """Names of Keras' optimizers that a program may have: those that exist, and what Keras calls others."""
    keras = sys.modules.get("keras")  # a program without it has none
    kinds = () if keras is None else (keras.optimizers.Optimizer,)
    return {*KERAS_OPTIMIZERS, *(one.name for one in gc.get_objects() if issubclass(type(one), kinds))}
