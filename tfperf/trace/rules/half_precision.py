"""Half precision on a processor that is slower at it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.rules.rule import Cost, Rule

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution

MOST = 3  # layers that are named


def find(found: "Attribution") -> Iterator[Cost]:
    """Of what would be free without them, by how much float32 is faster at the operations, each run by itself."""
    rules = found.notes.rules
    steps = (cost for cost in found.costs if cost.phase != "input")  # what a dataset does ahead is not of half_ms
    mine = [(cost, share) for cost in steps if (share := rules.find_half(cost.scopes)) is not None]
    busy = sum(cost.busy_ms for cost, _ in mine)
    saved = sum(cost.busy_ms * (1 - share) for cost, share in mine)
    if saved <= 0 or not any(cost.busy_ms and 0 < share < 1 for cost, share in mine):  # casts alone compute nothing
        return
    slower = sorted((pair for pair in mine if pair[1] < 1), key=lambda pair: -pair[0].busy_ms * (1 - pair[1]))
    names = list(dict.fromkeys(cost.layer or cost.name for cost, _ in slower))
    told = ", ".join(names[:MOST]) + (" and others" if len(names) > MOST else "")
    kinds = " and ".join(dict.fromkeys(one.kind for one in found.notes.half))
    free = found.account.work_kept * found.half_ms
    gain = free * saved / busy
    what = f"this processor is slower in {kinds} than in float32: with what they cast, operations of {told} take"
    yield Cost(f"{what} {busy / (busy - saved):.2g} times as long", gain, gain, free)


SINGLE = "compute in float32 on a processor, and keep half precision for accelerators"
RULE = Rule(
    "half_precision", "Half precision is slow on this processor", find,
    {
        "engine": SINGLE, "card": f"{SINGLE}: leave out model.precision",
        "keras": f'{SINGLE}: keras.mixed_precision.set_dtype_policy("float32"), or dtype="float32" of layers',
        "loop": SINGLE, "jax": SINGLE,
    },
    before='keras.mixed_precision.set_dtype_policy("mixed_float16")',
    after="""if tf.config.list_physical_devices("GPU"):
    keras.mixed_precision.set_dtype_policy("mixed_float16")""",
)  # fmt: skip
