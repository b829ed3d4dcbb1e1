"""What a pipeline computes, as a digest: the same in every process, another one once a stage or a value changes."""

import hashlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tfperf.inputs.graph_copy import STATES, GraphCopy
from tfperf.inputs.graph_nodes import iterate_function_nodes, list_functions, strip_output
from tfperf.inputs.operations import PYTHON
from tfperf.inputs.pipeline import GENERATOR
from tfperf.inputs.prefixes import make_sequential

# names and numbers that each process gives anew, and what does not change elements
LEFT_OUT = {
    "metadata", "token", "shared_name", "container", "deterministic", "use_inter_op_parallelism", "_output_shapes",
    "_construction_context", "config", "config_proto", "executor_type", "output_shapes", "preserve_cardinality",
    "force_synchronous", "cardinality", "_user_specified_name", "is_files",
}  # fmt: skip
RESOURCE = tf.resource.as_datatype_enum  # shuffles, caches: numbers that each process gives anew


def hash_pipeline(copy: GraphCopy) -> str:
    """Digest of operations, values and functions, however many calls run at once. Of Python code only that there is
    some (`uses_python`)."""
    plain = copy.duplicate()
    make_sequential(plain)
    return _GraphHash(plain).hash_node(plain.output).hex()


def uses_python(copy: GraphCopy) -> bool:
    """Whether Python runs in a stage."""
    return any(node.op in PYTHON or node.op == GENERATOR for node in iterate_nodes(copy))


def iterate_nodes(copy: GraphCopy, name: str | None = None) -> Iterator[Any]:
    """All nodes that the elements of a stage come from, by default of the last, those of functions among them."""
    waiting, seen, called = [copy.output if name is None else name], set[str](), set[str]()
    while waiting:
        one = waiting.pop()
        if one in seen or one not in copy.nodes:
            continue
        seen.add(one)
        node = copy.nodes[one]
        yield node
        waiting += map(strip_output, node.input)
        for function in set(list_functions(node)) & {*copy.library} - called:
            called.add(function)
            yield from iterate_function_nodes(function, copy.library)


def find_changeable(copy: GraphCopy, name: str | None = None) -> list[str]:
    """What the elements of a stage depend on that a program may change meanwhile, in words; tables that are filled once
    do not count."""
    bare = {node.op.removesuffix("V2") for node in iterate_nodes(copy, name)}
    return sorted({STATES[op] for op in bare & STATES.keys() - {"HashTable"}})


class _GraphHash:
    def __init__(self, copy: GraphCopy) -> None:
        self._copy = copy
        self._nodes: dict[str, bytes] = {}
        self._functions: dict[str, bytes] = {}

    def hash_node(self, name: str) -> bytes:
        """Of a node with all that it depends on; its own name does not count."""
        if name not in self._nodes:
            node = self._copy.nodes[name]
            inputs = [self.hash_node(strip_output(one)) + _get_output(one) for one in node.input]
            self._nodes[name] = _join(node.op.encode(), *self._list_attributes(node), *inputs)
        return self._nodes[name]

    def _hash_function(self, name: str) -> bytes:
        if name not in self._functions:
            function = self._copy.library[name]
            nodes = [
                _join(node.name.encode(), self._hash_op(node.op), *self._list_attributes(node), *_encode(node.input))
                for node in sorted(function.node_def, key=lambda one: one.name)
            ]
            ends = [f"{key} {value}" for key, value in sorted(function.ret.items())]
            self._functions[name] = _join(*nodes, *_encode(one.name for one in function.signature.input_arg),
                                          *_encode(ends))  # fmt: skip
        return self._functions[name]

    def _hash_op(self, op: str) -> bytes:
        return self._hash_function(op) if op in self._copy.library else op.encode()

    def _list_attributes(self, node: Any) -> Iterator[bytes]:
        for key in sorted(set(node.attr) - LEFT_OUT):
            value = node.attr[key]
            functions = [value.func.name] if value.HasField("func") else [one.name for one in value.list.func]
            if functions:
                yield _join(key.encode(), *(self._hash_op(one) for one in functions))
            elif not (value.HasField("tensor") and value.tensor.dtype == RESOURCE):
                yield _join(key.encode(), value.SerializeToString(deterministic=True))


def _get_output(name: str) -> bytes:
    return name.partition(":")[2].encode() or b"0"


def _encode(texts: Any) -> Iterator[bytes]:
    return (str(text).encode() for text in texts)


def _join(*parts: bytes) -> bytes:
    """A digest of several, each with its length."""
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.digest()
