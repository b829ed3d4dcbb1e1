"""A Keras training whose input is measured: its steps without its data, its data without steps, and both."""

import json
from dataclasses import asdict
from typing import Any

import tensorflow as tf

from tfperf.console.stages import show_nothing
from tfperf.errors import UserError
from tfperf.inputs.ahead import measure_store_point
from tfperf.inputs.delivery import measure_beginning
from tfperf.inputs.graph_copy import copy_graph
from tfperf.inputs.pipeline import Pipeline, Stage
from tfperf.inputs.problems import find_problems, find_source_problems
from tfperf.inputs.sources import describe_source
from tfperf.inputs.stage_times import measure_stages
from tfperf.measure.environment import read_available_bytes
from tfperf.sources.streams import BatchStream, DatasetStream
from tfperf.stores.first_elements import is_equal, take_first
from tfperf.stores.split import split_pipeline
from tfperf.workloads.input_trial import Side
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.feeding import make_feed
from tfperf.workloads.keras.feeds import Feed
from tfperf.workloads.keras.inputs import TrainingData, read_data
from tfperf.workloads.keras.loops import StepLoop
from tfperf.workloads.keras.training import KerasTraining

VARIED = 16  # batches that the model is measured over where their shapes vary


class _FeedPasses:
    """Batches of a feed, epoch after epoch, for any loop."""

    def __init__(self, feed: Feed) -> None:
        self._feed, self._epoch, self._done = feed, 0, 0

    def run(self, loop: StepLoop, steps: int) -> None:
        """As many epochs as the steps take. Raises: UserError where the data have no batch, or fail."""
        was_empty = False
        while steps:
            count, _ = self._feed.run(loop, self._epoch, self._done, steps)
            steps, self._done = steps - count, self._done + count
            if steps or self._done == self._feed.steps_per_epoch:
                if was_empty and not count:
                    raise UserError("data: a pass has no batch; is a generator used up?")
                was_empty = not count
                self._epoch, self._done = self._epoch + 1, 0


class KerasLoader:
    """Data of a card without its model, made by so many threads, or workers of its own."""

    def __init__(self, card: KerasCard, workers: int) -> None:
        """Raises: UserError for data whose workers have no number."""
        data = read_data(card)
        if not isinstance(data.training, BatchStream):
            raise UserError("data: samples in memory have no workers")
        data.training.set_workers(workers)
        feed = make_feed(data.training, data.batch, card.train.steps_per_epoch, data.draw_order, show_nothing)
        self._feed, self._passes, self._loop = feed, _FeedPasses(feed), feed.make_loop(_take_nothing, "graph")

    @property
    def pass_length(self) -> int | None:
        """The steps of an epoch, after which a stream begins again."""
        return self._feed.steps_per_epoch

    def take(self, steps: int) -> None:
        """So many batches."""
        self._passes.run(self._loop, steps)


class KerasInputTrial:
    """The steps of a training, as a fit takes them, epochs one after the other."""

    def __init__(self, training: KerasTraining, data: TrainingData) -> None:
        """training: of these data; its loop is chosen."""
        self._training, self._data, feed = training, data, training.feed
        self._kept = training.state.snapshot()
        self._recorded = feed.record(VARIED if _has_varied_shapes(data.training) else 1)
        self._passes, self._empty = _FeedPasses(feed), feed.make_loop(_take_nothing, "graph")

    @property
    def batch(self) -> int | None:
        """Samples of a whole batch."""
        return self._training.feed.batch

    @property
    def pass_length(self) -> int | None:
        """The steps of an epoch, after which a stream begins again."""
        return self._training.feed.steps_per_epoch

    def take(self, side: Side, steps: int) -> None:
        """Raises: UserError where the data have no batch, or fail."""
        if side == "model":
            self._training.loop.run(self._recorded.repeat(steps))
        else:
            self._passes.run(self._training.loop if side == "both" else self._empty, steps)

    def put_back(self) -> None:
        """Weights, slots, counters, seeds."""
        self._training.state.restore(self._kept)

    def describe_source(self, seconds: float) -> dict[str, Any]:
        """Of a tf.data.Dataset each stage with its times; of other data who makes the batches."""
        data = self._data.training
        source = data.source if isinstance(data, BatchStream) else tuple(data.arrays)
        if isinstance(source, tf.data.Dataset):
            return describe_dataset(source, seconds) | {
                "is_settable": isinstance(data, DatasetStream), "steps_per_epoch": self._training.feed.steps_per_epoch,
            }  # fmt: skip
        described = describe_source(source)
        problems = find_source_problems(described)
        return asdict(described) | {
            "has_workers": described.has_workers, "problems": [asdict(one) for one in problems],
        }  # fmt: skip


def _has_varied_shapes(data: Any) -> bool:
    """Whether batches may differ in more than how many samples they have, as of texts of several lengths."""
    if not isinstance(data, BatchStream):
        return False
    specs = tf.nest.flatten(data.element_spec)
    return any(not isinstance(one, tf.TensorSpec) or one.shape.rank is None or None in one.shape[1:] for one in specs)


def _describe_ahead(dataset: tf.data.Dataset, pipeline: Pipeline) -> dict[str, Any] | None:
    copy = copy_graph(dataset)

    def can_split(stage: Stage) -> bool:
        try:
            split_pipeline(copy, stage.node)
        except UserError:
            return False
        return True

    def is_same(stage: Stage) -> bool:
        made = split_pipeline(copy, stage.node).make_stored(copy)
        try:
            return is_equal(take_first(made), take_first(made))
        except tf.errors.OpError:
            return False

    point = measure_store_point(pipeline, can_split, is_same)
    return None if point is None else asdict(point) | {"available_bytes": read_available_bytes()}


def describe_dataset(dataset: tf.data.Dataset, seconds: float) -> dict[str, Any]:
    """Each stage with its times, and what is wrong."""
    pipeline, times = measure_stages(dataset, seconds)
    found = {
        "kind": "tf.data.Dataset", "has_workers": True, "pipeline": asdict(pipeline), "times": asdict(times),
        "problems": [asdict(one) for one in find_problems(pipeline, times)],
        "ahead": _describe_ahead(dataset, pipeline), "begin_seconds": measure_beginning(dataset),
    }  # fmt: skip
    return dict(json.loads(json.dumps(found, default=sorted)))  # sets as lists


def _take_nothing(batch: Any) -> dict[str, tf.Tensor]:
    """A step that only has its batch, of which it looks at a value, since what is not looked at is not computed."""
    return {"batch": tf.add_n([_read_first(part) for part in tf.nest.flatten(batch, expand_composites=True)])}


def _read_first(part: tf.Tensor) -> tf.Tensor:
    """A number from the first value; 0 where there is none."""
    values = tf.reshape(part, [-1])[:1]
    if values.dtype == tf.string:
        values = tf.strings.length(values)
    return tf.reduce_sum(tf.cast(tf.math.real(values) if values.dtype.is_complex else values, tf.float32))
