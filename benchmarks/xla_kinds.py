"""Which operations XLA computes slower than TensorFlow on a processor, and which it cannot compile."""

import time
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any

from benchmarks.registry import Row, register_benchmark
from tfperf.errors import UserError

ROUNDS, SECONDS, FEWEST, MOST = 5, 0.1, 3, 300  # in turn; of a round, about; calls of a round
Operation = tuple[Callable[..., Any], tuple[Any, ...]]


@register_benchmark(
    "xla-kinds",
    claim="operations that tfperf profile takes to be slower in a program of XLA are, on a processor",
    sweep="one operation in a compiled function, by itself, of 25 000 to 500 000 elements or matrices of 100 rows",
    unit="us a call less that of a function which does hardly anything, medians of rounds in turn; times: XLA's over "
    "TensorFlow's; n/a: XLA does not compile it",
)
def measure_xla_kinds(only: str = "") -> Iterator[Row]:
    """only: kinds of operations, with commas. Raises: UserError for one that is not there."""
    import tensorflow as tf

    operations = list_operations()
    nothing = time_in_turn(lambda x: x + 1, (tf.zeros([]),))
    chosen = [name for name in only.split(",") if name]
    if unknown := set(chosen) - set(operations):
        raise UserError(f"--only: {', '.join(sorted(unknown))}: no kind; there are {', '.join(operations)}")
    for kind in chosen or operations:
        found = time_in_turn(*operations[kind])
        graph, xla = (None if us is None else us - (less or 0.0) for us, less in zip(found, nothing, strict=True))
        times = "n/a" if graph is None or xla is None else xla / graph
        yield {"kind": kind, "graph_us": graph, "xla_us": "n/a" if xla is None else xla, "times": times}


def time_in_turn(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[float | None, float | None]:
    """us a call of the function as a graph and by XLA; None: it is not compiled."""
    import tensorflow as tf

    both = [tf.function(function), tf.function(function, jit_compile=True)]
    compiled = []
    for one in both:
        try:
            one(*arguments)
            compiled.append(one)
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError):
            pass
    times: dict[Any, list[float]] = {one: [] for one in compiled}
    for _ in range(ROUNDS):
        for one in compiled:
            times[one].append(time_calls(one, arguments))
    graph, xla = (median(times[one]) if one in times else None for one in both)
    return graph, xla


def time_calls(function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    """us a call; each waits for the one before it."""
    import tensorflow as tf

    calls, start = 0, time.perf_counter()
    while calls < FEWEST or (calls < MOST and time.perf_counter() - start < SECONDS):
        tf.nest.map_structure(lambda one: one.numpy(), function(*arguments))
        calls += 1
    return 1e6 * (time.perf_counter() - start) / calls


def list_operations() -> Mapping[str, Operation]:
    """By kind, what is computed and of what."""
    return _list_algebra() | _list_pictures() | _list_functions() | _list_variables()


def _draw(*shape: int) -> Any:
    import tensorflow as tf

    return tf.random.stateless_normal(shape, [1, 2])


def _list_algebra() -> dict[str, Operation]:
    """Of matrices of 100 rows."""
    import tensorflow as tf

    raw, some, few, many = tf.raw_ops, _draw(100, 100), _draw(100, 4), _draw(20000, 16)
    good = some @ tf.transpose(some) + 100 * tf.eye(100)
    return {
        "Cholesky": (tf.linalg.cholesky, (good,)), "Svd": (tf.linalg.svd, (some,)),
        "SelfAdjointEigV2": (tf.linalg.eigh, (good,)), "Qr": (tf.linalg.qr, (some,)),
        "MatrixInverse": (tf.linalg.inv, (good,)), "MatrixSolve": (tf.linalg.solve, (good, few)),
        "MatrixTriangularSolve": (tf.linalg.triangular_solve, (good, few)),
        "MatrixDeterminant": (tf.linalg.det, (good,)), "LogMatrixDeterminant": (tf.linalg.slogdet, (good,)),
        "MatMul": (tf.matmul, (some, some)), "BatchMatMulV2": (tf.matmul, (_draw(64, 16, 16), _draw(64, 16, 16))),
        "SegmentSum": (lambda a: raw.SegmentSum(data=a, segment_ids=tf.range(20000) // 2), (many,)),
        "UnsortedSegmentSum": (lambda a: tf.math.unsorted_segment_sum(a, tf.range(20000) // 2, 10000), (many,)),
        "SparseTensorDenseMatMul": (
            lambda a: tf.sparse.sparse_dense_matmul(tf.SparseTensor([[0, 1], [2, 3]], [1.0, 2.0], [100, 100]), a),
            (some,),
        ),
    }  # fmt: skip


def _list_pictures() -> dict[str, Operation]:
    """Of 16 pictures of 32 by 32 by 8."""
    import tensorflow as tf

    raw, pictures, kernel, large = tf.raw_ops, _draw(16, 32, 32, 8), _draw(3, 3, 8, 16), _draw(16, 64, 64, 8)
    thin, one = _draw(3, 3, 8, 1), {"strides": [1, 1, 1, 1], "padding": "SAME"}
    pool = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
    depthwise = raw.DepthwiseConv2dNativeBackpropInput, raw.DepthwiseConv2dNativeBackpropFilter
    return {
        "Conv2D": (lambda x, k: raw.Conv2D(input=x, filter=k, **one), (pictures, kernel)),
        "DepthwiseConv2dNative": (lambda x, k: raw.DepthwiseConv2dNative(input=x, filter=k, **one), (pictures, thin)),
        "DepthwiseConv2dNativeBackpropInput": (
            lambda x, k: depthwise[0](input_sizes=[16, 32, 32, 8], filter=k, out_backprop=x, **one), (pictures, thin),
        ),
        "DepthwiseConv2dNativeBackpropFilter": (
            lambda x: depthwise[1](input=x, filter_sizes=[3, 3, 8, 1], out_backprop=x, **one), (pictures,),
        ),
        "MaxPool": (lambda x: raw.MaxPool(input=x, **pool), (pictures,)),
        "AvgPool": (lambda x: raw.AvgPool(value=x, **pool), (pictures,)),
        "ResizeBilinear": (lambda x: raw.ResizeBilinear(images=x, size=[64, 64]), (pictures,)),
        "ResizeBilinearGrad": (lambda g, x: raw.ResizeBilinearGrad(grads=g, original_image=x), (large, pictures)),
        "ResizeNearestNeighbor": (lambda x: raw.ResizeNearestNeighbor(images=x, size=[64, 64]), (pictures,)),
        "ResizeNearestNeighborGrad": (lambda g: raw.ResizeNearestNeighborGrad(grads=g, size=[32, 32]), (large,)),
        "ResizeBicubic": (lambda x: raw.ResizeBicubic(images=x, size=[64, 64]), (pictures,)),
    }  # fmt: skip


def _list_functions() -> dict[str, Operation]:
    """Of 64 rows of 1000."""
    import tensorflow as tf

    raw, rows, draw = tf.raw_ops, _draw(64, 1000), {"shape": [64, 1000], "alg": 1}
    share, key = tf.sigmoid(rows), tf.constant([1], tf.uint64)
    counter = tf.constant([1, 2], tf.uint64)
    functions = {
        "Sin": tf.sin, "Cos": tf.cos, "Tan": tf.tan, "Tanh": tf.tanh, "Exp": tf.exp, "Log1p": tf.math.log1p,
        "Erf": tf.math.erf, "Sigmoid": tf.sigmoid, "Softplus": tf.nn.softplus, "Lgamma": tf.math.lgamma,
        "Digamma": tf.math.digamma, "Softmax": tf.nn.softmax, "Cumsum": tf.cumsum, "TopKV2": tf.math.top_k,
        "Betainc": lambda x: tf.math.betainc(2 + x, 3 + x, x), "Igamma": lambda x: tf.math.igamma(2 + x, x),
    }  # fmt: skip
    return {kind: (function, (share,)) for kind, function in functions.items()} | {
        "TopKV2 of all": (tf.sort, (rows,)), "FFT": (tf.signal.fft, (tf.complex(rows, rows),)),
        "StatelessRandomUniformV2": (
            lambda k, c: raw.StatelessRandomUniformV2(key=k, counter=c, **draw), (key, counter),
        ),
        "StatelessRandomNormalV2": (
            lambda k, c: raw.StatelessRandomNormalV2(key=k, counter=c, **draw), (key, counter),
        ),
        "RandomUniform": (lambda: tf.random.uniform([64, 1000]), ()),
        "RandomStandardNormal": (lambda: tf.random.normal([64, 1000]), ()),
        "TruncatedNormal": (lambda: tf.random.truncated_normal([64, 1000]), ()),
        "RandomGamma": (lambda: tf.random.gamma([64], tf.ones([1000])), ()),
    }  # fmt: skip


def _list_variables() -> dict[str, Operation]:
    """What a step assigns."""
    import tensorflow as tf

    variables = [tf.Variable(0.0) for _ in range(100)]

    def assign(x: Any) -> Any:
        for one in variables:
            one.assign_add(x)
        return x

    return {"100 of AssignAddVariableOp": (assign, (tf.zeros([]),))}
