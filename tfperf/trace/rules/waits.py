"""Steps that wait for their batch."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tfperf.trace.host_events import FIRST_BATCH
from tfperf.trace.intervals import NOTHING
from tfperf.trace.rules.rule import Cost, Rule, format_times

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution


FETCH_IN_LOOP_MS = 0.06  # the same inside of a compiled loop
FETCH_MS = 0.15  # what a call takes to fetch a batch that is ready: 0.014 to 0.2 in the programs of `diagnosis`


def find(found: "Attribution") -> Iterator[Cost]:
    """What a pipeline that is always ahead would give back; its slowest stage is named."""
    anew = is_iterator_made_anew(found)
    ms = found.account.sum("input", "epoch") if anew else found.account.sum("input")
    calls = min(1.0, found.calls / max(len(found.steps), 1))
    ready = FETCH_MS * calls + FETCH_IN_LOOP_MS * (1.0 - calls)
    stage = _describe_stage(found, ms)
    slowed = 2 * sum(one.slows_ms for one in found.account.list("input")) > ms
    what, change = (CHEAPER_WHAT, CHEAPER) if slowed else ("steps wait for input", None)
    gain = ms - ready
    generators = any("Generator" in one.name for one in found.stages)
    if anew:
        what, change = "each step makes an iterator of a dataset anew, fills it and ends it", ONE_ITERATOR
    elif not slowed and (few := _describe_few_waits(found)) and SHUFFLE.search(found.stages[0].name):
        what, change, gain = few, FILLED, _sum_few_waits(found, ms)
    elif not slowed and found.stages and found.program in ("keras", "loop"):
        change = GENERATOR if generators else FEED  # it is no PyDataset
    yield Cost(f"{what}{stage}", ms, gain, change=change)


def _describe_stage(found: "Attribution", wait_ms: float) -> str:
    """The longest stage, with its time where that explains most of the wait."""
    if not found.stages:
        return ""
    one = found.stages[0]
    if one.ms < MOSTLY * wait_ms:
        return f"; the longest stage of the pipeline is {one.name}"
    return f"; stage {one.name} of the pipeline takes {one.ms:.3g} ms a step"


def _describe_few_waits(found: "Attribution") -> str:
    """How often steps wait, where most of it is as few waits as passes over the data; else nothing."""
    passes = max(found.account.epochs, 1)
    if not found.stages or found.account.steps < FEWEST_STEPS * passes or _compute_share(found, passes) < FEW_SHARE:
        return ""
    return f"steps wait for input, most of it {format_times(passes)} in {found.account.steps} steps"


def _sum_few_waits(found: "Attribution", ms: float) -> float:
    """ms a step of these; of the first steps of epochs, where it is these, as often as epochs begin in the training."""
    account = found.account
    often = account.expected_epochs / account.epochs if account.expected_epochs and account.epochs else 1.0
    first = sum(one.ms for one in account.list("input") if one.name == FIRST_BATCH)
    recorded = first / often
    if recorded >= FEW_SHARE * (ms - first + recorded):
        return first
    return _compute_share(found, max(account.epochs, 1)) * ms


def _compute_share(found: "Attribution", count: int) -> float:
    """Of so many longest waits, of all."""
    waits = found.account.moments.get("input", NOTHING)
    lengths = np.sort(waits.end - waits.begin)
    return float(lengths[-count:].sum() / max(lengths.sum(), 1))


def is_iterator_made_anew(found: "Attribution") -> bool:
    """Whether steps of a loop make iterators of their own: as many as there are steps; epochs of `fit` may do so."""
    return found.notes.program == "loop" and found.account.iterators >= OFTEN * found.account.steps


FEW_SHARE = 0.6  # of all that is waited, from which on few waits are most of it
FEWEST_STEPS = 4  # of a pass over the data, from which on one wait of each is few of many
SHUFFLE = re.compile(r"(^|::)Shuffle(AndRepeat)?(::|$)")  # itself or what it is filled from
MOSTLY = 0.5  # of the wait, from which on a stage explains it
OFTEN = 0.9  # iterators that are made a step, from which on each step makes one
ONE_ITERATOR = "make one before the loop, batches = iter(data.repeat()), and take next(batches) in each step"
CHEAPER_WHAT = "threads that prepare the data slow the steps"
CHEAPER = "prepare the data once: cache() it, or store what the pipeline makes of it"
FILLED = (
    "give shuffle() a smaller buffer, which mixes less and is filled sooner in each epoch; or cache() what comes before"
)
FEED = "prepare the data in parallel, cache() what is not random, and prefetch() it"
GENERATOR = (
    "a generator runs in one thread of Python: have it give whole batches, or a PyDataset do its work with more "
    "workers and use_multiprocessing=True; cache() what is not random"
)
RULE = Rule(
    "input", "Steps wait for input", find,
    {
        "engine": FEED, "card": f"{FEED}; `tfperf input CARD` finds the settings",
        "keras": f"{FEED}; of a PyDataset raise workers, with use_multiprocessing=True", "loop": FEED,
        "jax": "prepare batches in threads or processes ahead of the steps",
    },
    before="data = tf.data.Dataset.from_tensor_slices(files).map(read).batch(64)",
    after="data = tf.data.Dataset.from_tensor_slices(files).map(read, tf.data.AUTOTUNE).batch(64).prefetch(2)",
)  # fmt: skip
