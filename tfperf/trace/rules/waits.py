"""Steps that wait for their batch."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tfperf.trace.rules.rule import Cost, Rule

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
    if anew:
        what, change = "each step makes an iterator of a dataset anew, fills it and ends it", ONE_ITERATOR
    generators = any("Generator" in one.name for one in found.stages)
    if change is None and found.stages and SHUFFLE.search(found.stages[0].name) and is_once_an_epoch(found):
        what, change = "the first step of each epoch waits for input", FILLED
    elif change is None and found.stages and not generators and found.program == "keras":
        change = FEED  # it is no PyDataset
    yield Cost(f"{what}{stage}", ms, ms - ready, change=change)


def _describe_stage(found: "Attribution", wait_ms: float) -> str:
    """The longest stage, with its time where that explains most of the wait."""
    if not found.stages:
        return ""
    one = found.stages[0]
    if one.ms < MOSTLY * wait_ms:
        return f"; the longest stage of the pipeline is {one.name}"
    return f"; stage {one.name} of the pipeline takes {one.ms:.3g} ms a step"


def is_iterator_made_anew(found: "Attribution") -> bool:
    """Whether steps of a loop make iterators of their own: as many as there are steps; epochs of `fit` may do so."""
    return found.notes.program == "loop" and found.account.iterators >= OFTEN * found.account.steps


def is_once_an_epoch(found: "Attribution") -> bool:
    """Whether the longest waits, as many as epochs ended, are most of them."""
    waits, epochs = found.account.moments.get("input"), found.account.epochs
    if waits is None or not epochs or found.account.steps < FEWEST_STEPS * epochs:
        return False
    lengths = np.sort(waits.end - waits.begin)
    return bool(lengths[-epochs:].sum() >= ONCE * lengths.sum())


ONCE = 0.6  # share of all waits
FEWEST_STEPS = 4  # of an epoch, from which on waits once an epoch are few of many
SHUFFLE = re.compile(r"(^|::)Shuffle(AndRepeat)?(::|$)")  # itself or what it is filled from
MOSTLY = 0.5  # of the wait, from which on a stage explains it
OFTEN = 0.9  # iterators that are made a step, from which on each step makes one
ONE_ITERATOR = "make one before the loop, batches = iter(data.repeat()), and take next(batches) in each step"
CHEAPER_WHAT = "threads that prepare the data slow the steps"
CHEAPER = "prepare the data once: cache() it, or store what the pipeline makes of it"
FILLED = "give shuffle() a smaller buffer, as it is filled anew in each epoch; or cache() what comes before it"
FEED = "prepare the data in parallel, cache() and prefetch() it"
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
