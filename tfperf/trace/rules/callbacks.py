"""Callbacks of a Keras training."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.charges import EPOCH_HOOKS
from tfperf.trace.rules.rule import Cost, Rule

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution

SAVING = ("ModelCheckpoint", "BackupAndRestore", "SwapEMAWeights")
SELDOM = "let it do less, or do it every few epochs"
SAVE_LESS = "save less often (save_freq), weights alone (save_weights_only=True), or to a faster disk"


def find(found: "Attribution") -> Iterator[Cost]:
    """Each class by itself, with the hook that takes most."""
    classes: dict[str, list[tuple[str, float, float]]] = {}
    for charge in found.account.list("callback"):
        name, _, hook = charge.name.rpartition(".")
        classes.setdefault(name or "callbacks", []).append((hook, charge.ms, charge.times))
    for name, hooks in classes.items():
        hook, _, times = hooks[0]
        ms = sum(one for _, one, _ in hooks)
        each = f"{hooks[0][1] / times:.3g} ms each, " if times else ""
        often = f"every {1 / times:.3g} steps" if 0 < times < 0.9 else "each step" if times else "now and then"
        change = SAVE_LESS if name in SAVING else SELDOM if hook in EPOCH_HOOKS else None
        yield Cost(f"{name}.{hook}, {each}{often}" if hook else name, ms, ms, change=change)


LESS = "let it do less, or less often: every few hundred batches, or once an epoch"
RULE = Rule(
    "callback", "A callback takes time", find,
    {
        "engine": LESS, "card": LESS, "keras": LESS, "loop": LESS,
        "jax": LESS,
    },
    before="""def on_train_batch_end(self, batch, logs=None):
    self.write(logs)""",
    after="""def on_train_batch_end(self, batch, logs=None):
    if batch % 200 == 0:
        self.write(logs)""",
)  # fmt: skip
