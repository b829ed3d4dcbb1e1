"""Operations that give the same in every step."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.rules.rule import Cost, Rule

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution


def find(found: "Attribution") -> Iterator[Cost]:
    """What would be free without them; at most all that they take."""
    constant = found.constant
    if constant:
        names = ", ".join(dict.fromkeys(cost.layer or cost.name for cost in constant[:3]))
        free, every = (found.account.work_kept * ms for ms in (found.constant_ms, sum(cost.ms for cost in constant)))
        yield Cost(
            f"operations that depend on constants, or weights that no function changes ({names})",
            free,
            free,
            max(free, every),
        )


ONCE = "compute them once, before training, and keep the result"
RULE = Rule(
    "constants", "Constant work in every step", find,
    {
        "engine": ONCE, "card": ONCE, "keras": ONCE, "loop": ONCE,
        "jax": ONCE,
    },
    before="def call(self, x):\n    return x @ tf.linalg.inv(self.table)  # a constant",
    after="def build(self, shape):\n    self.inverse = tf.linalg.inv(self.table)",
    least=0.02,
)  # fmt: skip
