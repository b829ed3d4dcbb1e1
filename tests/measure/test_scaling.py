"""Programs of any size from those of two small ones, against the program that is traced for that size."""

import pytest
import tensorflow as tf

from tfperf.errors import UnknownSizeError
from tfperf.measure.static_memory.estimate import estimate_program
from tfperf.measure.static_memory.program import make_program
from tfperf.measure.static_memory.scaling import Scale, scale_program

SIZES, WANTED, WIDTH = (131, 135), 1000, 60


def make(size, step):
    table = tf.Variable(tf.zeros([size, WIDTH, WIDTH]), name="net/table")
    constant = tf.ones([2 * size, WIDTH])
    concrete = tf.function(lambda: step(table, constant, size), autograph=False).get_concrete_function()
    return make_program(concrete)


def take_step(table, constant, size):
    """Reads, reshapes and loops over parts whose lengths depend on the size; writes the variable."""
    with tf.GradientTape() as tape:
        wide = tf.reshape(constant, [size, 2 * WIDTH])[:, :WIDTH]
        products = tf.tanh(tf.linalg.matvec(table, wide))
        _, total = tf.while_loop(
            lambda i, _: i < 3, lambda i, so_far: (i + 1, tf.sin(so_far) + products), (tf.constant(0), products)
        )
        loss = tf.reduce_sum(total)
    table.assign_sub(tape.gradient(loss, table))
    return loss


def test_a_scaled_program_needs_what_the_traced_one_does():
    less, more = (make(size, take_step) for size in SIZES)
    direct = estimate_program(make(WANTED, take_step), "replicas")
    scaled = estimate_program(scale_program(less, more, Scale(*SIZES, WANTED)), "replicas")
    assert direct.reason == scaled.reason == "" and direct.peak is not None
    # zeros that TensorFlow writes into the graph for few it makes in each step for many
    assert scaled.peak == pytest.approx(direct.peak, rel=0.01) and scaled.fixed == pytest.approx(direct.fixed, rel=0.02)
    assert [one.shape for one in scaled.buffers[:5]] == [one.shape for one in direct.buffers[:5]]
    held = WANTED * WIDTH * WIDTH * 4
    assert direct.peak > 2 * held, "the variable and its gradient"


def test_what_grows_by_other_than_whole_steps_is_refused():
    with pytest.raises(UnknownSizeError, match="whole numbers"):
        Scale(130, 135, WANTED).scale_number(130 // 3, 135 // 3)


def test_programs_of_other_operations_are_refused():
    def step(table, constant, size):
        return tf.sin(constant) if size < 133 else tf.cos(constant)

    less, more = (make(size, step) for size in SIZES)
    with pytest.raises(UnknownSizeError, match="same operations"):
        scale_program(less, more, Scale(*SIZES, WANTED))
    with pytest.raises(UnknownSizeError, match="axes"):
        Scale(*SIZES, WANTED).scale_shape([131], [135, 1])
