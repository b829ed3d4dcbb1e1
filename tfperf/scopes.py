"""Marks of phases in a program, for profiles to tell where time goes. Lies lowest, so that everything may use it."""

from collections.abc import Iterator
from contextlib import contextmanager

PREFIX = "tfperf."  # of the scopes' names
IN_TENSORFLOW = " by TensorFlow"  # ends the line of a thread that has TensorFlow start operations
WRITING = " by TensorFlow, which writes"  # the same, to write what the program keeps: checkpoints, logs
OF_LIBRARY = " of a library"  # ends the line of a thread that is at no code of the program's own
# what is told of the host in a profile: the line that a thread is at, a garbage collection, a callback's class and
# hook, a method of a Keras model that a loop calls
SAMPLE, GARBAGE, CALLBACK, METHOD = (f"{PREFIX}{name}:" for name in ("at", "garbage", "callback", "method"))


@contextmanager
def mark_range(name: str) -> Iterator[None]:
    """A trace range of that name, by which a profile knows what the host does meanwhile: epoch, validation."""
    import tensorflow as tf

    with tf.profiler.experimental.Trace(f"{PREFIX}{name}"):
        yield


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Operations made inside belong to a phase of this name: a name scope for graphs and XLA, a trace range for eager.

    Names that a profile's report knows: forward, backward, merge, transfer, update, input, validation, callback.

    >>> import tensorflow as tf
    >>> with phase("validation"):
    ...     loss = tf.reduce_mean(tf.square([1.0, 2.0]))
    >>> float(loss)
    2.5
    """
    import tensorflow as tf

    with mark_range(name), tf.name_scope(f"{PREFIX}{name}"):
        yield
