"""Copies between the host and a device."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.rules.rule import Cost, Rule

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution

OVERLAP = (
    "end a tf.data pipeline by .apply(tf.data.experimental.prefetch_to_device('/GPU:0')), which has to come last; "
    "under a strategy leave experimental_fetch_to_device of tf.distribute.InputOptions at True"
)


def find(found: "Attribution") -> Iterator[Cost]:
    """While no kernel runs."""
    sums: dict[str, float] = {}
    for one in found.transfers:
        sums[one.device] = sums.get(one.device, 0.0) + one.ms
    for use in found.device_use:
        if use.copies is not None and use.copies.alone > 0:
            ms = use.copies.alone * found.account.period_ms
            yield Cost(f"{use.device} copies and runs no kernel", ms, ms, max(ms, sums.get(use.device, 0.0)))


RULE = Rule(
    "copies", "Devices wait for copies", find,
    {
        "engine": "keep data and losses on the device", "card": OVERLAP, "keras": OVERLAP, "loop": OVERLAP,
        "jax": "put batches on the device ahead of the step, by jax.device_put",
    },
    before="data = data.batch(64).prefetch(2)",
    after='data = data.batch(64).apply(tf.data.experimental.prefetch_to_device("/GPU:0"))',
)  # fmt: skip
