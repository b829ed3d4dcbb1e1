"""The feed of what a card names as its data."""

from tfperf.console.stages import ShowStage
from tfperf.errors import UserError
from tfperf.sources.data import Data
from tfperf.sources.py_datasets import DrawOrder
from tfperf.sources.samples import Samples
from tfperf.workloads.keras.feeds import Feed
from tfperf.workloads.keras.memory_feed import MemoryFeed
from tfperf.workloads.keras.stream_feed import StreamFeed


def make_feed(data: Data, batch: int, steps_per_epoch: int | None, draw_order: DrawOrder, show: ShowStage) -> Feed:
    """The feed of samples or of a stream. Raises: UserError for an epoch that does not fit them."""
    if isinstance(data, Samples):
        if steps_per_epoch is not None:
            raise UserError(
                "train.steps_per_epoch: must be left out for samples in memory, of which an epoch takes all"
            )
        return MemoryFeed(data, batch, draw_order)
    return StreamFeed(data, steps_per_epoch, show)
