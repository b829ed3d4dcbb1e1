"""Records of arrays as a tree that JSON can hold and a list of arrays, and back.

Taken are dataclasses of this package, tuples, lists, dicts with text keys, slices, arrays, numbers, text and None.
"""

from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np

from tfperf.arrays import AnyArray

PACKAGE = __name__.partition(".")[0] + "."


def flatten(value: Any, arrays: list[AnyArray]) -> Any:
    """The tree of a value; its arrays are appended to `arrays`, in C order. TypeError for what is not taken.

    >>> arrays: list[AnyArray] = []
    >>> tree = flatten({"rows": slice(0, 2), "x": np.zeros(2)}, arrays)
    >>> tree
    {'dict': {'rows': {'slice': [0, 2, None]}, 'x': {'array': 0}}}
    >>> restore(tree, arrays)
    {'rows': slice(0, 2, None), 'x': array([0., 0.])}
    """
    match value:
        case np.ndarray():
            # a product's last bits can depend on the order of its factors in memory
            arrays.append(value if value.flags.c_contiguous else value.copy(order="C"))
            return {"array": len(arrays) - 1}
        case tuple() | list():
            return {type(value).__name__: [flatten(v, arrays) for v in value]}
        case dict():
            return {"dict": {k: flatten(v, arrays) for k, v in value.items()}}
        case slice():
            return {"slice": [None if v is None else int(v) for v in (value.start, value.stop, value.step)]}
        case None | bool() | int() | float() | str():
            return value.item() if isinstance(value, np.generic) else value
        case np.generic():
            return value.item()
    if not is_dataclass(value) or isinstance(value, type):
        raise TypeError(f"{type(value).__name__} cannot be stored")
    kind = type(value)
    tree = {f.name: flatten(getattr(value, f.name), arrays) for f in fields(value)}
    return {"record": f"{kind.__module__}:{kind.__name__}", "fields": tree}


def restore(tree: Any, arrays: list[AnyArray]) -> Any:
    """The value of a tree; ValueError, LookupError, TypeError or AttributeError for one that `flatten` did not make."""
    if not isinstance(tree, dict):
        return tree
    if "record" in tree:
        return _restore_record(tree["record"], {k: restore(v, arrays) for k, v in tree["fields"].items()})
    ((kind, content),) = tree.items()
    match kind:
        case "array":
            return arrays[content]
        case "tuple":
            return tuple(restore(v, arrays) for v in content)
        case "list":
            return [restore(v, arrays) for v in content]
        case "dict":
            return {k: restore(v, arrays) for k, v in content.items()}
        case "slice":
            return slice(*content)
    raise ValueError(f"unknown kind {kind!r}")


def _restore_record(name: str, values: dict[str, Any]) -> Any:
    """A dataclass of this package, and nothing else, from the values of its fields."""
    module, _, kind = name.partition(":")
    if not module.startswith(PACKAGE):
        raise ValueError(f"{name}: not of this package")
    found = getattr(import_module(module), kind)
    if not isinstance(found, type) or not is_dataclass(found):
        raise ValueError(f"{name}: no record")
    return found(**values)
