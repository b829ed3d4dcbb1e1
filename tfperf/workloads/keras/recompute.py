"""Blocks of a functional Keras model whose activations are computed again in the backward pass.

`keras.RematScope` does so within layers only, and with TensorFlow it refuses calls with keywords inside a tf.function
(Keras 3.15); what lies between layers is most of what a model keeps.
"""

from collections.abc import Callable, Sequence
from math import isqrt
from typing import Any

import keras
import tensorflow as tf

from tfperf.errors import UserError

Nodes = Sequence[Any]  # of Keras' graph, each behind those that it takes from
Results = dict[int, Any]  # by the id of the symbolic tensor that each stands for


def recompute_blocks(model: keras.Model) -> None:
    """From now on the model's blocks are computed again.

    What is kept lies where one tensor alone goes on, so that a block has about as many layers as there are blocks.

    Raises: UserError for a model that is not functional, has masks, or nowhere a single tensor.
    Source: Chen, Xu, Zhang & Guestrin 2016, "Training deep nets with sublinear memory cost".
    """
    inner = getattr(model, "_functional", None) or model  # of a Sequential
    if not hasattr(inner, "_nodes_by_depth"):
        raise UserError("recompute: the model is not functional, so that its blocks are not known")
    nodes = _list_nodes(inner)
    if any(getattr(one, "_keras_mask", None) is not None for node in nodes for one in node.outputs):
        raise UserError("recompute: layers pass on masks, which blocks do not")
    early = [node for node in nodes if not any(map(_is_float, (*node.input_tensors, *node.outputs)))]
    late = [node for node in nodes if node not in early]
    blocks = _group(_split(late, inner.outputs))
    if len(blocks) < 2:
        raise UserError("recompute: there is no place where a single tensor goes on")
    inner._run_through_graph = _make_runner(inner, early, blocks)


def _make_runner(model: Any, early: Nodes, blocks: Sequence[Nodes]) -> Callable[..., Any]:
    def run(inputs: Any, operation_fn: Any = lambda one: one, call_fn: Any = None) -> Any:
        known: Results = {id(x): y for x, y in zip(model.inputs, keras.tree.flatten(inputs), strict=True)}
        _compute(early, known, operation_fn)
        for block in blocks[:-1]:  # what the last one keeps, the backward pass takes at once
            _recompute(block, known, operation_fn)
        _compute(blocks[-1], known, operation_fn)
        return keras.tree.pack_sequence_as(model._outputs_struct, [known[id(one)] for one in model.outputs])

    return run


def _compute(nodes: Nodes, known: Results, operation_fn: Any) -> None:
    for node in nodes:
        arguments, keywords = node.arguments.fill_in(known)
        outputs = operation_fn(node.operation)(*arguments, **keywords)
        known.update((id(x), y) for x, y in zip(node.outputs, keras.tree.flatten(outputs), strict=True))


def _recompute(block: Nodes, known: Results, operation_fn: Any) -> None:
    """Its one result, of what comes from before as arguments; tensors of whole numbers have no gradient."""
    made = {id(one) for node in block for one in node.outputs}
    given = {id(one): None for node in block for one in node.input_tensors if id(one) not in made and _is_float(one)}
    last = id(block[-1].outputs[0])

    def call(*tensors: Any) -> Any:
        inside = known | dict(zip(given, tensors, strict=True))
        _compute(block, inside, operation_fn)
        return inside[last]

    known[last] = tf.recompute_grad(call)(*(known[key] for key in given))


def _list_nodes(model: Any) -> list[Any]:
    by_depth = model._nodes_by_depth
    return [
        node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]
        if node.operation is not None and not node.is_input
    ]  # fmt: skip


def _split(nodes: Nodes, outputs: Sequence[Any]) -> list[list[Any]]:
    """Cut behind each node whose result alone goes on."""
    last: dict[int, int] = {id(one): len(nodes) for one in outputs}
    for place, node in enumerate(nodes):
        for one in node.input_tensors:
            last[id(one)] = max(last.get(id(one), 0), place)
    found: list[list[Any]] = [[]]
    alive: set[int] = set()
    for place, node in enumerate(nodes):
        found[-1].append(node)
        alive |= {id(one) for one in node.outputs}
        alive = {one for one in alive if last.get(one, 0) > place}
        if alive == {id(node.outputs[0])}:
            found.append([])
    return [block for block in found if block]


def _group(pieces: Sequence[Nodes]) -> list[Nodes]:
    """Neighbours together, up to the root of the number of layers in each group, or one piece that has more."""
    most = isqrt(sum(map(len, pieces)))
    found: list[Nodes] = []
    for piece in pieces:
        if found and len(found[-1]) + len(piece) <= most:
            found[-1] = [*found[-1], *piece]
        else:
            found.append(piece)
    return found


def _is_float(tensor: Any) -> bool:
    return "float" in str(tensor.dtype)
