"""Ways to take many steps of a model: compiled calls over samples in memory or over a stream, Keras' train function."""

from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol

import keras
import tensorflow as tf

from tfperf.arrays import AnyArray, Indices
from tfperf.sources.samples import Nest, Samples

Logs = dict[str, float]  # what the last step returned: metrics of the epoch so far
Step = Callable[[Any], Any]  # of one batch, as `model.train_step`
Compilation = Literal["graph", "XLA step", "XLA loop"]  # XLA compiles nothing, each step, or all steps of a call
Batches = Any  # of a call: rows (steps, batch) of samples in memory, or a pair of an iterator and a number of steps


class StepLoop(Protocol):
    """Takes steps."""

    def run(self, batches: Batches) -> tuple[int, Logs]:
        """How many steps were taken, fewer than asked for where a stream ended, and the logs of the last."""

    def get_program(self) -> Any:
        """The compiled program of a call."""


class MemoryLoop:
    """All steps of a call inside one compiled program, with the samples on the device.

    Keras calls a program for each step or unrolls some of them; here a loop in the program gathers each batch and takes
    the model's own step.
    """

    def __init__(self, step: Step, samples: Nest, batch: int, compilation: Compilation) -> None:
        """samples: tensors (N, ...); batch: samples of a whole batch."""
        self._step, self._samples, self._batch = step, samples, batch
        self._compiles_loop = compilation == "XLA loop"
        # operations of steps that overlap hold the tensors of both, and are not faster; a step that XLA compiles is one
        # operation, beside which the next batch is gathered
        self._at_once = 1 if compilation == "graph" else 10
        if compilation == "XLA step":
            self._step = tf.function(flatten_step(step), autograph=False, jit_compile=True, reduce_retracing=True)
        self._programs: dict[int, Any] = {}  # by the samples of a batch

    def run(self, batches: Indices) -> tuple[int, Logs]:
        """A step for each line of `batches` (steps, batch), the samples of its batch."""
        logs = self._get_program(batches.shape[1])(tf.constant(batches))
        return len(batches), {key: float(value) for key, value in logs.items()}

    def get_program(self) -> Any:
        """The program for whole batches."""
        return self._get_program(self._batch)

    def _get_program(self, batch: int) -> Any:
        """The program for batches of that length, traced when it is first asked for."""
        if batch not in self._programs:
            spec = tf.TensorSpec([None, batch], tf.int64)
            self._programs[batch] = self.make_function(batch).get_concrete_function(spec)
        return self._programs[batch]

    def trace_step(self, batch: int) -> Any:
        """A single step, its batch gathered, as a concrete function that nothing compiles."""
        return tf.function(self._take_step, autograph=False).get_concrete_function(tf.TensorSpec([batch], tf.int64))

    def make_function(self, batch: int) -> Any:
        """Of rows (steps, batch): the program of a call, not yet traced."""
        shapes = self.trace_step(batch).structured_outputs
        return tf.function(self._make_loop(shapes), autograph=False, jit_compile=self._compiles_loop)

    def _take_step(self, rows: tf.Tensor) -> dict[str, tf.Tensor]:
        return dict(flatten_logs(self._step(select_batch(self._samples, rows))))

    def _make_loop(self, shapes: dict[str, Any]) -> Callable[[tf.Tensor], Any]:
        def take(rows: tf.Tensor) -> Any:
            def body(i: tf.Tensor, _: Any) -> tuple[tf.Tensor, Any]:
                return i + 1, self._take_step(rows[i])

            start = (tf.constant(0), make_zeros(shapes))
            return tf.while_loop(lambda i, _: i < tf.shape(rows)[0], body, start, parallel_iterations=self._at_once)[1]

        return take


class StreamLoop:
    """All steps of a call inside one compiled program, which takes the batches from an iterator of tf.data."""

    def __init__(self, step: Step, element_spec: Nest, compilation: Compilation) -> None:
        """element_spec: of a batch; XLA compiles a step for each shape that comes."""
        self._step, self._spec, self._xla = flatten_step(step), element_spec, compilation != "graph"
        self._program: Any = None

    def run(self, batches: tuple[Any, int]) -> tuple[int, Logs]:
        """At most so many steps, until the iterator ends."""
        iterator, steps = batches
        done, logs = self.get_program()(iterator, tf.constant(steps))
        return int(done), {key: float(value) for key, value in logs.items()} if done else {}

    def get_program(self) -> Any:
        """The program of a call, traced when it is first asked for."""
        if self._program is None:
            step = tf.function(self._step, autograph=False, jit_compile=self._xla, reduce_retracing=True)
            shapes = step.get_concrete_function(self._spec).structured_outputs
            take = tf.function(self._make_loop(step, shapes), autograph=False)
            iterator = tf.data.IteratorSpec(self._spec)
            self._program = take.get_concrete_function(iterator, tf.TensorSpec([], tf.int32))
        return self._program

    def _make_loop(self, step: Step, shapes: dict[str, Any]) -> Callable[[Any, tf.Tensor], Any]:
        def take(iterator: Any, steps: tf.Tensor) -> Any:
            def fetch(i: tf.Tensor) -> Any:  # none after the last: the next call takes it
                nothing = tf.experimental.Optional.empty(self._spec)
                return tf.cond(i < steps, iterator.get_next_as_optional, lambda: nothing)

            def body(i: tf.Tensor, batch: Any, _: Any) -> tuple[tf.Tensor, Any, Any]:
                logs = step(batch.get_value())
                return i + 1, fetch(i + 1), logs

            start = (tf.constant(0), fetch(tf.constant(0)), make_zeros(shapes))
            i, _, logs = tf.while_loop(lambda i, batch, _: batch.has_value(), body, start, parallel_iterations=1)
            return i, logs

        return take


class KerasLoop:
    """Keras' train function, a call for each step."""

    def __init__(self, model: keras.Model, samples: Nest | None, xla: bool) -> None:
        """samples: tensors (N, ...); None: batches come from an iterator."""
        self._samples = samples
        model.jit_compile, model.steps_per_execution = xla, 1
        model.make_train_function(force=True)
        self._take_step = model.train_function  # of this setting: a later loop of the model has another
        self._iterators: dict[int, tuple[Any, tf.Variable]] = {}  # by the samples of a batch
        self._batch: Nest = None
        self._feeder: Any = None

    def run(self, batches: Batches) -> tuple[int, Logs]:
        """Take the steps, fewer where the iterator ends."""
        logs: dict[str, Any] = {}
        if self._samples is not None:
            iterator, rows = self._get_iterator(batches.shape[1])
            for row in batches:
                rows.assign(row)
                logs = self._take_step(iterator)
            return len(batches), _to_numbers(logs)
        iterator, steps = batches
        for done in range(steps):
            batch = iterator.get_next_as_optional()
            if not batch.has_value():  # Keras' function, given an iterator at its end, counts a step before it fails
                return done, _to_numbers(logs)
            logs = self._take_step(self._give(batch.get_value(), iterator.element_spec))
        return steps, _to_numbers(logs)

    def _give(self, batch: Nest, element_spec: Nest) -> Any:
        """An iterator of the same type whose next batch is that one; made once."""
        self._batch = batch
        if self._feeder is None:
            endless = tf.data.Dataset.from_generator(self._repeat_batch, output_signature=element_spec)
            self._feeder = iter(endless.with_options(_make_options()))
        return self._feeder

    def _repeat_batch(self) -> Iterator[Nest]:
        while True:
            yield self._batch

    def get_program(self) -> Any:
        """Keras' own function."""
        return self._take_step

    def _get_iterator(self, batch: int) -> tuple[Any, tf.Variable]:
        """An iterator without an end, whose next batch has the samples that the variable says; made once."""
        if batch not in self._iterators:
            rows = tf.Variable(tf.zeros([batch], tf.int64))
            endless = tf.data.Dataset.from_tensors(0).repeat()
            batches = endless.map(lambda _: select_batch(self._samples, tf.ensure_shape(rows, [batch])))
            self._iterators[batch] = iter(batches.with_options(_make_options())), rows
        return self._iterators[batch]


def _make_options() -> tf.data.Options:
    """For datasets whose next batch is decided when it is asked for."""
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.experimental_optimization.inject_prefetch = False
    options.autotune.enabled = False
    return options


class PlainArithmeticLoop:
    """A loop whose arithmetic TensorFlow does not rewrite: the rewriting depends on whether steps are in a loop."""

    def __init__(self, loop: StepLoop) -> None:
        self._loop = loop

    def run(self, batches: Batches) -> tuple[int, Logs]:
        """As the loop does."""
        before = tf.config.optimizer.get_experimental_options()
        tf.config.optimizer.set_experimental_options({"arithmetic_optimization": False})
        try:
            return self._loop.run(batches)
        finally:
            kept = before.get("arithmetic_optimization", True)
            tf.config.optimizer.set_experimental_options({"arithmetic_optimization": kept})

    def get_program(self) -> Any:
        """The loop's."""
        return self._loop.get_program()


def flatten_step(step: Step) -> Step:
    """The step with logs that a program can return."""
    return lambda batch: dict(flatten_logs(step(batch)))


def get_final_logs(model: keras.Model, logs: Logs) -> Logs:
    """The logs of an epoch: the metrics' own results where a step returns figures by their names."""
    results = model.get_metrics_result()
    return _to_numbers(results) if logs and {*logs} == {*results} else logs


def _to_numbers(logs: Any) -> Logs:
    return {key: float(value) for key, value in flatten_logs(logs)}


def make_zeros(shapes: dict[str, Any]) -> dict[str, tf.Tensor]:
    """Logs before the first step, of the shapes that a traced step tells."""
    return {key: tf.zeros(spec.shape, spec.dtype) for key, spec in shapes.items()}


def flatten_logs(logs: Any) -> Iterator[tuple[str, tf.Tensor]]:
    """Of dicts in a dict the inner names; of arrays the mean; no texts."""
    if not isinstance(logs, dict):
        raise TypeError(f"the model's step returned {type(logs).__name__}; must return a dict of losses and metrics")
    for key, value in logs.items():
        if isinstance(value, dict):
            yield from flatten_logs(value)
        else:
            tensor = tf.convert_to_tensor(value)
            if tensor.dtype.is_floating or tensor.dtype.is_integer:
                yield str(key), tensor if tensor.shape.rank == 0 else tf.reduce_mean(tensor)


def to_tensors(samples: Samples) -> Nest:
    """The samples on the device; floating-point ones become Keras' floatx, as in Keras' own `fit`."""

    def convert(array: AnyArray) -> tf.Tensor:
        return tf.constant(array.astype(keras.config.floatx()) if array.dtype.kind == "f" else array)

    found = keras.tree.map_structure(convert, samples.data)
    return found[0] if len(found) == 1 and not isinstance(found[0], tuple) else found  # as Keras gives inputs alone


def select_batch(samples: Nest, rows: tf.Tensor) -> Nest:
    """A batch; its length is known when the step is traced, since kernels differ where it is not."""

    def gather(array: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.gather(array, rows), [rows.shape[0], *array.shape[1:]])

    return keras.tree.map_structure(gather, samples)
