"""Operations that XLA computes much slower than TensorFlow on a processor."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.rules.rule import Cost, Rule
from tfperf.trace.xla_kinds import TIMES

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution

# the operation that an instruction comes from, by its scope, and its kind; of others it depends on their size
DEPTHWISE = re.compile(r"(?:^|/)(depthwise|DepthwiseConv2dNative\w*?)(?:_\d+)?$")
FORWARD = "DepthwiseConv2dNative"
MOST = 3  # layers that are named
# share of the step from which on it is told: where it was 0.27, XLA was still the faster, by what it saves elsewhere
LARGE = 0.4


def find(found: "Attribution") -> Iterator[Cost]:
    """Of convolutions of each channel by itself, by how much TensorFlow is faster at them."""
    if found.program == "jax" or any("CPU" not in device for device in found.any):
        return
    mine = [
        (one, TIMES[kind]) for one in found.costs if one.kind == "convolution" and one.scopes
        for match in [DEPTHWISE.search(one.scopes[0])] if match is not None
        for kind in [FORWARD if match[1] == "depthwise" else match[1]] if kind in TIMES
    ]  # fmt: skip
    ms = sum(one.ms for one, _ in mine)
    gain = sum(one.ms * (1 - 1 / times) for one, times in mine)
    if not gain:
        return
    layers = list(dict.fromkeys(one.layer or one.name for one, _ in sorted(mine, key=lambda pair: -pair[0].ms)))
    told = ", ".join(layers[:MOST]) + (" and others" if len(layers) > MOST else "")
    what = (
        f"depthwise convolutions, for which XLA took {ms / (ms - gain):.0f} times as long as TensorFlow where both were"
    )
    yield Cost(f"{what} measured on a processor ({told})", gain, gain, ms)


RULE = Rule(
    "slow_xla", "XLA is slower than TensorFlow", find,
    {
        "engine": "set engine.xla: false", "card": "set engine.xla: false",
        "keras": "set jit_compile=False of compile() on a processor, and True where there is an accelerator",
        "loop": "leave out jit_compile=True of tf.function on a processor", "jax": "compute them on an accelerator",
    },
    before="model.compile(optimizer, loss, jit_compile=True)",
    after='model.compile(optimizer, loss, jit_compile=bool(tf.config.list_physical_devices("GPU")))',
    least=LARGE,
)  # fmt: skip
