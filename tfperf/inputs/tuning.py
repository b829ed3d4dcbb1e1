"""What TensorFlow's model of a running dataset says of each stage: what AUTOTUNE chose, and what is held."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import model_pb2

from tfperf.inputs.pipeline import Pipeline


@dataclass(frozen=True)
class StageTuning:
    """Of one stage, now."""

    elements: int  # that it has given
    parallelism: float | None  # calls side by side; of those that AUTOTUNE sets what it has set
    is_tuned: bool  # AUTOTUNE sets its parallelism or its buffer
    buffer_size: float | None  # elements that a prefetch may hold
    buffered_elements: int
    buffered_bytes: int
    bytes_produced: int
    is_parallelized: bool  # TensorFlow runs it in parallel, though it is written as sequential


def read_tuning(iterator: Any, pipeline: Pipeline, output: int | None = None) -> dict[int, StageTuning]:
    """By positions of stages, for the one at `output` and those before it. Empty where AUTOTUNE is off.

    iterator: its handle. Stages inside of functions are not told, nor those that TensorFlow has made one with others.
    """
    try:
        model = model_pb2.ModelProto.FromString(tf.raw_ops.IteratorGetModelProto(iterator=iterator).numpy())
    except tf.errors.OpError:
        return {}
    position = len(pipeline.stages) - 1 if output is None else output
    sequential = {place for place, stage in enumerate(pipeline.stages) if stage.parallel is None}
    matched = _Matching(pipeline, model.nodes).match(model.output, position)
    return {place: _read_node(model.nodes[number], place in sequential) for place, number in matched.items()}


class _Matching:
    """TensorFlow's tree of nodes beside that of stages: it has others, too, and may lack some; so most are to match."""

    def __init__(self, pipeline: Pipeline, nodes: Mapping[int, Any]) -> None:
        self._stages, self._nodes = pipeline.stages, nodes
        self._known: dict[tuple[int, int], dict[int, int]] = {}

    def match(self, number: int, position: int) -> dict[int, int]:
        """Numbers of nodes by positions of stages, of all that one node and one stage depend on."""
        key = number, position
        if key not in self._known:
            stage, chain = self._stages[position], self._list_chain(number)
            tries = [self._match_at(at, position) for at in chain if _is_same(self._nodes[at].name, stage.op)]
            if len(stage.inputs) == 1:  # it may not be there
                tries.append(self.match(number, stage.inputs[0]))
            # of equals the last: a prefetch that TensorFlow adds comes before the user's own
            self._known[key] = max(reversed(tries), key=len, default={})
        return self._known[key]

    def _list_chain(self, number: int) -> list[int]:
        """A node, what it reads first, what that reads first, and so on."""
        chain = [number]
        while self._nodes[chain[-1]].inputs:
            chain.append(self._nodes[chain[-1]].inputs[0])
        return chain

    def _match_at(self, number: int, position: int) -> dict[int, int]:
        found, children = {position: number}, list(self._nodes[number].inputs)
        for source in self._stages[position].inputs:
            # an interleave also lists the datasets that it has open: what is read is what looks most like it
            tries = [(self.match(child, source), child) for child in children]
            best, child = max(tries, key=lambda one: len(one[0]), default=({}, None))
            found |= best
            children = [one for one in children if one != child]
        return found


def _is_same(name: str, op: str) -> bool:
    """Whether TensorFlow's name of a node is that of an operation, as `MemoryCache` of `CacheDatasetV2`.

    >>> _is_same("ParallelMapV2", "MapDataset"), _is_same("MapAndBatch", "BatchDatasetV2")
    (True, False)
    """
    bare = re.sub(r"Dataset|V\d+$", "", op)
    words = {"Tensor": "FromTensor"}
    pattern = rf"(Parallel|Memory|File|Finite|Forever|Legacy|Empty)?{words.get(bare, bare)}(V\d+)?"
    return re.fullmatch(pattern, name) is not None


def _read_node(node: Any, is_sequential: bool) -> StageTuning:
    parameters = {one.name: one for one in node.parameters}
    parallelism, buffer = parameters.get("parallelism"), parameters.get("buffer_size")
    return StageTuning(
        node.num_elements, _read_value(parallelism),
        any(one is not None and one.tunable for one in (parallelism, buffer)), _read_value(buffer),
        node.buffered_elements, node.buffered_bytes, node.bytes_produced,
        is_sequential and node.name.startswith("Parallel"),
    )  # fmt: skip


def _read_value(parameter: Any) -> float | None:
    """Of a parameter that is set while the dataset runs, the state is what it is now; others have none."""
    if parameter is None:
        return None
    return float(parameter.state_value if parameter.tunable else parameter.value)
