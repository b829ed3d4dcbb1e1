"""What a tf.data.Dataset is made of: whether its passes differ, and whether they can be had again."""

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tfperf.inputs.operations import PYTHON, find_stateful

UNORDERED = "an order that may change (deterministic=False)"
# what a pass leaves behind for the next one: draws of a shuffle's order, a cache
WITH_HISTORY = ("shuffle", "cache", "random", "sample", "snapshot")


class DatasetGraph:
    """The datasets that one is made of, and the operations of their functions."""

    def __init__(self, dataset: tf.data.Dataset) -> None:
        """Nothing of it is run."""
        parts = list(_list_parts(dataset))
        self._names = {type(part).__name__.strip("_").lower() for part in parts}
        self._kinds = {kind for part in parts for function in part._functions() for kind in _list_kinds(function)}
        self._options = dataset.options()
        self._unordered = any(getattr(part, "_deterministic", None) in ("false", False) for part in parts)

    @property
    def has_history(self) -> bool:
        """Whether a pass may depend on those before it."""
        inner = {kind.lower() for kind in self._kinds if "Dataset" in kind}
        return any(word in name for name in self._names | inner for word in WITH_HISTORY) or bool(self.list_unkept())

    def list_unkept(self) -> list[str]:
        """What may be another when it is gone through again, in words."""
        found = []
        if random := find_stateful(self._kinds - PYTHON):
            advice = "random numbers of tf.image.stateless_random_* and tf.random.stateless_* can be had again"
            found.append(f"a state of its own in {', '.join(random)} ({advice})")
        if any(name.startswith("generatordataset") for name in self._names) or "GeneratorDataset" in self._kinds:
            found.append("a Python generator")
        elif python := sorted(self._kinds & PYTHON):
            found.append(f"Python code in {', '.join(python)}")
        if self._unordered or self._options.deterministic is False:
            found.append(UNORDERED)
        return found


def _list_parts(dataset: Any) -> Iterator[Any]:
    yield dataset
    for part in dataset._inputs():
        yield from _list_parts(part)


def _list_kinds(function: Any) -> Iterator[str]:
    """The kinds of operations of a function that a dataset calls, and of those that it calls."""
    graph = function.function.graph.as_graph_def()
    for nodes in (graph.node, *(one.node_def for one in graph.library.function)):
        yield from (node.op for node in nodes)
