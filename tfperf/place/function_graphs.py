"""The graphs of functions that a call runs, as TensorFlow tells them when it makes their kernels."""

from collections.abc import Callable, Iterable
from typing import Any


def record_graphs(call: Callable[[], Any]) -> list[list[Any]]:
    """Of each function that a call runs, which has run before, the graphs of its partitions, one for each device."""
    from tensorflow.python.eager.context import context  # not public

    now = context()
    now.enable_run_metadata()
    try:
        now.export_run_metadata()  # what was told before
        remake_kernels()
        call()
        return [list(one.partition_graphs) for one in now.export_run_metadata().function_graphs]
    finally:
        now.disable_run_metadata()


def remake_kernels() -> None:
    """Let TensorFlow make all kernels anew at the next call, and forget what it has learned of their costs.

    It tells of graphs when it makes kernels. It learns which operations are cheap, and its profiler shows those only
    beside ten times as many events of the runtime's own. It learns nothing while it traces.
    """
    from tensorflow.python.eager.context import context  # not public

    context().clear_kernel_cache()


def optimize_graph(graph: Any, wanted: Iterable[Any]) -> Any:
    """What TensorFlow makes of a graph before it runs, of which some tensors are wanted: a GraphDef."""
    import tensorflow as tf
    from tensorflow.python.grappler import tf_optimizer  # not public

    exported = tf.compat.v1.train.export_meta_graph(graph_def=graph.as_graph_def(), graph=graph)
    exported.collection_def["train_op"].node_list.value.extend(tensor.name for tensor in wanted)
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.min_graph_nodes = -1  # however few nodes it has
    return tf_optimizer.OptimizeGraph(config, exported)
