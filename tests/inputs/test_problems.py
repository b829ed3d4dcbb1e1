"""Each problem planted, and a twin that must not be accused of it: real graphs, times by hand."""

import pytest
import tensorflow as tf

from tfperf.inputs.pipeline import Pipeline
from tfperf.inputs.problems import find_problems, find_source_problems
from tfperf.inputs.sources import SourceDescription
from tfperf.inputs.stage_times import PipelineTimes, PrefixTime, StageTime
from tfperf.inputs.stages import read_stages
from tfperf.inputs.tuning import StageTuning
from tfperf.measure.confidence import ConfidenceInterval

AUTOTUNE = tf.data.AUTOTUNE
CORES = 2.0
WORKS, WAITS, NOTHING = (0.010, 0.0), (0.001, 0.009), (0.0, 0.0)


def sure(value):
    return ConfidenceInterval(value, value, value)


def make_times(pipeline: Pipeline, costs, rate=100.0, unordered=None, calls=None, is_cured=True):
    """Times of stages by their labels, (CPU, wait) [s] of an element; calls: that AUTOTUNE chose, by label."""
    prefix = PrefixTime(sure(rate), sure(0.01), sure(0.01), sure(0.0), 0.0, 0.0, 0.0)
    stages = []
    for stage in pipeline.stages:
        cpu, wait = costs.get(stage.label, NOTHING)
        chosen = (calls or {}).get(stage.label)
        tuning = None if chosen is None else StageTuning(100, chosen, True, None, 0, 0, 0, is_cured)
        stages.append(StageTime(prefix, sure(cpu), sure(wait), 0.0, 0.0, 1.0, tuning))
    return PipelineTimes(tuple(stages), unordered and sure(unordered))


def find(dataset, costs, **settings):
    pipeline = read_stages(dataset)
    return find_problems(pipeline, make_times(pipeline, costs, **settings), CORES)


def kinds(*arguments, **settings):
    return [one.kind for one in find(*arguments, **settings)]


def draw(x):
    return x + tf.random.uniform([], 0, 3, tf.int64)


def draw_by_seed(x):
    return x + tf.random.stateless_uniform([], [1, 2], 0, 3, tf.int64)


def add_one(x):
    return x + 1


def call_python(x):
    return tf.numpy_function(lambda v: v, [x], tf.int64)


def is_large(x):
    return x > 3


def decode(x):
    return tf.io.decode_jpeg(tf.strings.as_string(x))


def read_lines(x):
    return tf.data.TextLineDataset(tf.strings.as_string(x))


def numbers(count=100):
    return tf.data.Dataset.range(count)


def without(*names, autotune=True):
    options = tf.data.Options()
    options.autotune.enabled = autotune
    for name in names:
        setattr(options.experimental_optimization, name, False)
    return options


WORK = {"work": WORKS}
WAIT = {"work": WAITS}
SHORT = {"work": (50e-6, 0.0)}
UNFETCHED, SEQUENTIAL = without("inject_prefetch"), without("map_parallelization")


def planted(kind, dataset, costs=WORK, **settings):
    return pytest.param(kind, dataset, costs, settings)


@pytest.mark.parametrize(
    ("kind", "make", "costs", "settings"),
    [
        planted("no_prefetch", lambda: numbers().filter(is_large, name="work").with_options(UNFETCHED)),
        planted("no_prefetch", lambda: numbers().batch(2, name="work").with_options(without(autotune=False))),
        planted("no_prefetch", lambda: numbers().prefetch(1).batch(2, name="work").with_options(UNFETCHED)),
        planted("sequential_map", lambda: numbers().map(draw, name="work")),
        planted("sequential_map", lambda: numbers().map(add_one, name="work").with_options(SEQUENTIAL)),
        planted("sequential_map", lambda: numbers().map(call_python, name="work"), WAIT),
        planted("python_in_map", lambda: numbers().map(call_python, AUTOTUNE, name="work")),
        planted("batch_after_map", lambda: numbers().map(add_one, AUTOTUNE, name="work").batch(4), SHORT),
        planted("cache_after_random", lambda: numbers().map(draw, AUTOTUNE).cache(), {}),
        planted("cache_after_random", lambda: numbers().shuffle(100).cache(), {}),
        planted("cache_of_endless", lambda: numbers().repeat().cache(), {}),
        planted("small_shuffle", lambda: numbers(1000).shuffle(99), {}),
        planted("small_shuffle", lambda: numbers(1000).repeat().shuffle(99), {}),
        planted("order_kept", lambda: numbers().map(add_one, 4, name="work"), WAIT, rate=300.0, unordered=330.0),
        planted("sequential_interleave", lambda: numbers().interleave(read_lines, name="work"), WAIT),
        planted("sequential_interleave", lambda: numbers().flat_map(read_lines, name="work"), WAIT),
        planted("thread_pool_limits", lambda: numbers().map(add_one, AUTOTUNE, name="work"), WAIT, calls={"work": 2.0}),
        planted("thread_pool_limits", lambda: numbers().map(add_one, name="work"), WAIT, calls={"work": 2.0}),
        planted("few_parallel_calls", lambda: numbers().map(add_one, 2, name="work"), WAIT, rate=190.0),
    ],
)  # fmt: skip
def test_what_is_planted_is_found_and_nothing_else(kind, make, costs, settings):
    assert kinds(make(), costs, **settings) == [kind]


@pytest.mark.parametrize(
    ("make", "costs", "settings"),
    [
        # TensorFlow adds a prefetch, and runs a map without a state in parallel
        (lambda: numbers().batch(2, name="work"), WORK, {}),
        (lambda: numbers().map(add_one, name="work"), WORK, {}),
        (lambda: numbers().map(draw_by_seed, name="work"), WORK, {}),
        # a prefetch of the user's, with something after it that does no work
        (lambda: numbers().map(draw, 2, name="work").prefetch(1).repeat().with_options(UNFETCHED), WORK, {}),
        (lambda: numbers().map(draw, 2, name="work").with_options(UNFETCHED), WORK, {}),
        # what takes no time is left as it is
        (lambda: numbers().map(draw).batch(2, name="work"), WORK, {}),
        (lambda: numbers().map(call_python).batch(2, name="work"), WORK, {}),
        # Python that waits lets others of its kind run
        (lambda: numbers().map(call_python, 8, name="work"), WAIT, {"rate": 100.0}),
        # long functions, those of a single picture, chance, and what is batched before
        (lambda: numbers().map(add_one, AUTOTUNE, name="work").batch(4), WORK, {}),
        (lambda: numbers().map(decode, AUTOTUNE, name="work").batch(4), SHORT, {}),
        (lambda: numbers().map(draw, AUTOTUNE, name="work").batch(4), SHORT, {}),
        (lambda: numbers().batch(4).map(add_one, AUTOTUNE, name="work"), SHORT, {}),
        # a batch cannot go before one of two functions alone
        (lambda: numbers().map(add_one, AUTOTUNE, name="work").map(decode, AUTOTUNE).batch(4), SHORT, {}),
        (lambda: numbers().map(add_one, AUTOTUNE, name="work").map(add_one, AUTOTUNE, name="long").batch(4),
         {**SHORT, "long": (300e-6, 0.0)}, {}),
        # chance after the cache, seeds, and a shuffle on both sides
        (lambda: numbers().cache().map(draw, AUTOTUNE), {}, {}),
        (lambda: numbers().map(draw_by_seed, AUTOTUNE).cache(), {}, {}),
        (lambda: numbers().shuffle(100).cache().shuffle(100), {}, {}),
        (lambda: numbers().cache().repeat(), {}, {}),
        # a tenth of the data, and file names that are mixed before what is in the files
        (lambda: numbers(1000).shuffle(100), {}, {}),
        (lambda: numbers(1000).shuffle(1000).map(add_one, AUTOTUNE).shuffle(10), {}, {}),
        (lambda: numbers(1000).filter(is_large).shuffle(10), {}, {}),
        # order: within chance, no waiting, given up already, wanted by the stage
        (lambda: numbers().map(add_one, 4, name="work"), WAIT, {"rate": 300.0, "unordered": 310.0}),
        (lambda: numbers().map(add_one, 4, name="work"), WORK, {"rate": 300.0, "unordered": 400.0}),
        (lambda: numbers().map(add_one, 4, deterministic=False, name="work"), WAIT, {"rate": 300.0, "unordered": 400}),
        (lambda: numbers().map(add_one, 4, deterministic=True, name="work"), WAIT, {"rate": 300.0, "unordered": 400}),
        # files that are read at once, or without waiting; datasets without files
        (lambda: numbers().interleave(read_lines, 4, num_parallel_calls=4, name="work"), WAIT, {"rate": 30.0}),
        (lambda: numbers().interleave(read_lines, name="work"), WORK, {}),
        (lambda: numbers().interleave(lambda x: tf.data.Dataset.range(x), name="work"), WAIT, {}),
        # fewer calls than threads, and stages that compute
        (lambda: numbers().map(add_one, AUTOTUNE, name="work"), WAIT, {"calls": {"work": 1.0}}),
        (lambda: numbers().map(add_one, AUTOTUNE, name="work"), WORK, {"calls": {"work": 2.0}}),
        # enough calls for what the whole delivers
        (lambda: numbers().map(add_one, 4, name="work"), WAIT, {"rate": 190.0}),
    ],
)  # fmt: skip
def test_twins_are_not_accused(make, costs, settings):
    assert kinds(make(), costs, **settings) == []


def test_a_larger_pool_is_no_limit():
    options = tf.data.Options()
    options.threading.private_threadpool_size = 8
    dataset = numbers().map(add_one, AUTOTUNE, name="work").with_options(options)
    assert kinds(dataset, WAIT, calls={"work": 2.0}) == []
    assert kinds(dataset, WAIT, calls={"work": 8.0}) == ["thread_pool_limits"]


def test_what_tensorflow_did_counts_more_than_its_rule():
    """It may leave a map as it is that has no state."""
    dataset = numbers().map(add_one, name="work")
    assert kinds(dataset, WORK) == kinds(dataset, WORK, calls={"work": 1.0}) == []
    assert kinds(dataset, WORK, calls={"work": 1.0}, is_cured=False) == ["sequential_map"]


def test_a_generator_is_accused_where_it_takes_the_time():
    dataset = tf.data.Dataset.from_generator(lambda: iter([1]), output_signature=tf.TensorSpec([], tf.int64))
    assert kinds(dataset, {"flat_map": WORKS}) == ["python_generator"]
    assert kinds(dataset.batch(2, name="work"), WORK) == []


def test_evidence_has_the_figures():
    (problem,) = find(
        numbers().map(add_one, 2, name="work").batch(2), {"work": WAITS, "batch": (0.01, 0.0)}, rate=190.0
    )
    assert problem.positions == (1,) and problem.share == pytest.approx(0.5)
    assert problem.evidence == {
        "cpu_seconds": 0.001,
        "wait_seconds": 0.009,
        "calls": 2.0,
        "ceiling": pytest.approx(200.0),
    }
    (shuffle,) = find(numbers(1000).shuffle(7), {})
    assert shuffle.evidence == {"buffer": 7.0, "elements": 1000.0} and shuffle.share is None
    python = find(numbers().map(call_python, AUTOTUNE, name="work"), WORK)[0]
    assert python.evidence["most_rate"] == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (SourceDescription("arrays", "tuple", workers=0), []),
        (SourceDescription("function", "function", workers=0), ["python_generator"]),
        (SourceDescription("iterable", "generator", workers=0), ["python_generator"]),
        (SourceDescription("PyDataset", "Mine", workers=0), ["one_worker"]),
        (SourceDescription("PyDataset", "Mine", workers=1, are_processes=True), ["one_worker"]),
        (SourceDescription("PyDataset", "Mine", workers=4), []),
        (SourceDescription("DataLoader", "DataLoader", workers=2), []),
    ],
)
def test_sources_without_a_graph_are_told_by_their_workers(source, found):
    assert [one.kind for one in find_source_problems(source)] == found
