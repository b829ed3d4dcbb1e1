"""Counts against hand counts, on what XLA makes of live functions."""

import numpy as np
import pytest
import tensorflow as tf

from tests.train.problems import make_loop, make_problem
from tfperf.measure.hlo import count_work, find_loop_body
from tfperf.measure.lowering import Lowering
from tfperf.workloads.pdf.operators.woodbury import build_whitening


def optimized_hlo(function, *args):
    return Lowering(function, *args).compile_hlo()


def compiled(function, *args):
    return optimized_hlo(tf.function(function, jit_compile=True, autograph=False), *args)


def test_live_chain():
    a, b, c = tf.ones([200, 300]), tf.ones([300, 400]), tf.ones([400, 100])
    work = count_work(compiled(lambda a, b, c: tf.nn.relu(tf.matmul(tf.matmul(a, b), c)), a, b, c))
    products = 2 * 200 * 300 * 400 + 2 * 200 * 400 * 100
    # read a, b, ab, c; write ab; the end and what relu makes of it pass once or, where not fused, three times
    least = 4 * (60_000 + 120_000 + 2 * 80_000 + 40_000 + 20_000)
    assert work.products == products and work.flops == products + 20_000
    assert least <= work.bytes <= least + 2 * 80_000


def test_live_batched_product_and_a_captured_table():
    table = tf.ones([5, 30, 7])
    text = compiled(lambda a: tf.matmul(a, table, transpose_a=True), tf.ones([5, 30, 40]))
    assert count_work(text).products == 2 * 5 * 30 * 40 * 7


def test_live_loop():
    weights = tf.Variable(tf.ones([48, 48]))

    def inner(i, y):
        return i + 1, tf.tanh(tf.matmul(y, weights))

    def outer(i, y):
        _, y = tf.while_loop(lambda i, _: i < 5, inner, (0, y))
        return i + 1, y - tf.reduce_mean(y, axis=1, keepdims=True)

    arguments = tf.ones([64, 48]), tf.constant(3)
    run = tf.function(lambda x, n: tf.while_loop(lambda i, _: i < n, outer, (0, x))[1], jit_compile=True)
    texts = [optimized_hlo(f, *arguments) for f in (run, run.get_concrete_function(*arguments))]
    work, concrete = (count_work(text, find_loop_body(text)) for text in texts)
    assert concrete == work
    size = 64 * 48
    assert work.products == 5 * 2 * size * 48 and work.transcendental == 5 * size
    # the sum of a row, the mean, the difference; a few counters
    assert work.products + 2 * size + 64 <= work.flops <= work.products + 2 * size + 64 * 4 + 40
    # of each of five turns: y and the weights read, the product written, read again, tanh written
    assert 5 * 4 * (4 * size + 48 * 48) <= work.bytes <= 5 * 4 * (4 * size + 48 * 48) + 4 * 8 * size


def test_a_function_without_xla_has_no_hlo():
    with pytest.raises(ValueError, match="jit_compile"):
        optimized_hlo(tf.function(lambda x: x + 1), tf.ones([2]))
    with pytest.raises(ValueError, match="jit_compile"):
        optimized_hlo(tf.function(lambda x: x + 1).get_concrete_function(tf.ones([2])), tf.ones([2]))


def blocks_of(problem):
    """Points and directions (n, k) of each block of correlated systematics."""
    return [b.u.shape for b in build_whitening(problem.covariance, problem.sets, np.float32, problem.blocks).blocks]


def products_of_a_step(card, problem, loop):
    """Hand count: FLOPs of all matrix products of one step, forward and backward."""
    replicas, blocks = loop.stack.model.replicas, blocks_of(problem)
    nodes = len(loop.stack.replica_losses.x) + len(loop.stack.model.rule.x)
    inputs, network = 2, 0
    for i, units in enumerate(card.model.layers):
        # forward; gradient for the kernel and, but for the first layer, for what goes in
        network += (2 if i == 0 else 3) * 2 * replicas * nodes * inputs * units
        inputs = units
    tables = 2 * 2 * replicas * problem.observables.entries  # forward and backward
    # U^T e and K^-1 z of both halves of the data, U K^-1 z of the training half
    systematics = sum(3 * 2 * replicas * n * k + 2 * 2 * replicas * k**2 for n, k in blocks)
    return network + tables + systematics


def test_a_real_step_is_its_hand_count(tmp_path):
    card, problem = make_problem(tmp_path)
    loop = make_loop(card, problem)
    text = optimized_hlo(loop.get_program("steps", True), tf.constant(1, tf.int64))
    work = count_work(text, find_loop_body(text))
    want = products_of_a_step(card, problem, loop)
    replicas, nodes = 3, len(loop.stack.replica_losses.x) + len(loop.stack.model.rule.x)
    # XLA writes products with a side of one as element-wise ones, at most 1e-3 of all here; the gradient of a bias, a
    # sum over nodes, may be a product with ones: 2 % of all
    biases = 2 * replicas * nodes * sum(card.model.layers)
    assert 0.999 * want <= work.products <= want + biases
    weights = sum(int(tf.size(v.value)) for v in loop.trained)
    # a tanh for each hidden unit and node, a square root for each weight in Nadam; a few powers of the step number
    evaluations = replicas * nodes * sum(card.model.layers[:-1]) + weights
    assert evaluations <= work.transcendental <= evaluations + 100
    assert work.products < work.flops < 1.3 * work.products
    # tables are read forward and backward, the halves' K^-1 once, weights and both moments read and written
    tables = problem.observables.entries
    precisions = sum(2 * replicas * k**2 for _, k in blocks_of(problem))
    least = 4 * (2 * tables + precisions + 6 * weights)
    assert least < work.bytes < 6 * least
    assert work.instructions["dot"] >= 10 and sum(work.instructions.values()) < 300
