"""Graphs of functions that run, as TensorFlow tells them."""

import tensorflow as tf
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python.eager.context import context

from tfperf.place.run_graphs import convert_node, record_largest_graph
from tfperf.trace.graphs import GraphNode


def test_values_and_ends_of_an_operation_are_inputs_alike():
    one = NodeDef(name="a", op="Add", input=["x", "y:1", "^z", "x:2"], device="/device:CPU:1")
    assert convert_node(one) == GraphNode("a", "Add", "/device:CPU:1", ("x", "y", "z"))


def test_sends_receives_and_loops_are_known_by_what_they_say():
    send, receive = NodeDef(name="s", op="_Send", input=["x"]), NodeDef(name="r", op="_Recv")
    for one in (send, receive):
        for key, value in (("tensor_name", b"edge_3"), ("send_device", b"one"), ("recv_device", b"two")):
            one.attr[key].s = value
    assert convert_node(send).pair == convert_node(receive).pair == "one;two;edge_3"
    enter = NodeDef(name="e", op="Enter", input=["x"])
    enter.attr["frame_name"].s = b"loop"
    assert convert_node(enter).frame == "loop"


def test_the_graph_of_a_loop_is_joined_and_its_depth_is_known():
    @tf.function(autograph=False)
    def call(x):
        return tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, tf.tanh(y) + 1.0), (0, x))[1]

    given = tf.ones([2])
    call(given)
    graph = record_largest_graph(lambda: call(given))
    depth = {graph.nodes[i].kind: graph.count_loops(i) for i in range(len(graph.nodes))}
    assert depth["Tanh"] == depth["LoopCond"] == depth["NextIteration"] == 1
    inside = [i for i, one in enumerate(graph.nodes) if one.kind == "Tanh"]
    assert all(graph.before[i] and list(graph.conditions) == [graph.frames[i]] for i in inside)


def test_graphs_that_were_told_before_and_not_read_are_left_out():
    @tf.function(autograph=False)
    def large(x):
        for _ in range(40):
            x = tf.cumsum(x)
        return x

    @tf.function(autograph=False)
    def small(x):
        return tf.reverse(x, [0])

    given = tf.ones([2])
    small(given)
    context().enable_run_metadata()
    large(given)  # as a call that raised leaves them
    context().disable_run_metadata()
    kinds = {one.kind for one in record_largest_graph(lambda: small(given)).nodes}
    assert "ReverseV2" in kinds and "Cumsum" not in kinds
