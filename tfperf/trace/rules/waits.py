"""Steps that wait for their batch."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.rules.rule import Cost, Rule

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution


FETCH_MS = 0.15  # what a call takes to fetch a batch that is ready: 0.014 to 0.2 in the programs of `diagnosis`


def find(found: "Attribution") -> Iterator[Cost]:
    """What a pipeline that is always ahead would give back; its slowest stage is named."""
    anew = is_iterator_made_anew(found)
    ms = found.account.sum("input", "epoch") if anew else found.account.sum("input")
    ready = FETCH_MS * found.calls / max(len(found.steps), 1)
    stage = f"; its stage {found.stages[0].name} takes {found.stages[0].ms:.3g} ms a step" if found.stages else ""
    slowed = 2 * sum(one.slows_ms for one in found.account.list("input")) > ms
    what, change = (CHEAPER_WHAT, CHEAPER) if slowed else ("steps wait for input", None)
    if anew:
        what, change = "each step makes an iterator of a dataset anew, fills it and ends it", ONE_ITERATOR
    yield Cost(f"{what}{stage}", ms, ms - ready, change=change)


def is_iterator_made_anew(found: "Attribution") -> bool:
    """Whether steps of a loop make iterators of their own: as many as there are steps; epochs of `fit` may do so."""
    return found.notes.program == "loop" and found.account.iterators >= OFTEN * found.account.steps


OFTEN = 0.9  # iterators that are made a step, from which on each step makes one
ONE_ITERATOR = "make one before the loop, batches = iter(data.repeat()), and take next(batches) in each step"
CHEAPER_WHAT = "threads that prepare the data slow the steps"
CHEAPER = "prepare the data once: cache() it, or store what the pipeline makes of it"
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
