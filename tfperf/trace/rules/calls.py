"""What each compiled call costs beside its operations."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.scopes import OF_LIBRARY
from tfperf.trace.charges import Charge
from tfperf.trace.rules.eager import is_eager
from tfperf.trace.rules.lines import CAUSES
from tfperf.trace.rules.rule import Cost, Rule

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution

LONGER = 16  # times as many steps a call as now
MOST_TIMES = 4  # LONGER, of an epoch without a smaller divisor
FEWEST = 4  # times as many, where an epoch has such a divisor
OFTEN = 4  # calls a step of a function from which on these are what there are too many of
# Keras' loop of several steps fails under a strategy
LARGER = "give each device a larger batch, and the optimizer a learning rate for that: a call does more then"
MOST = 20  # operations in each of them, from which on it is these that take time between them
COMPILED = "take several steps in one tf.function, in a loop over tf.range around the compiled step"
OWN = "have your own train function take {steps} batches a call, in a loop over tf.range (else `fit` skips them), and "
SEVERAL = 1.9  # calls of compiled functions in a step of a loop from which on these are to be one
WHOLE = (
    "take the whole step in one tf.function, which calls the others; where Python has to run between them, give each "
    "call the inputs of several"
)


def find(found: "Attribution") -> Iterator[Cost]:
    """Before and after a call's operations, with what a library's loop does; longer calls have less of it.

    None is longer than an epoch.
    """
    if is_eager(found):
        return
    mine = [one for cause in CAUSES for one in found.account.list(cause)]
    ms = found.account.sum("dispatch") + sum(one.ms for one in mine if not one.name or one.name.endswith(OF_LIBRARY))
    if repeated := list_repeated(found):
        yield _make_repeated_cost(found, ms + sum(one.ms for one in repeated))
        return
    if found.program == "loop" and _count_calls(found) >= SEVERAL:
        yield _make_repeated_cost(found, ms)
        return
    epoch = _count_calls_of_epoch(found)
    longer = _choose_longer(epoch)
    if longer <= 1:
        return
    steps = found.account.steps / max(found.calls - 1, 1)
    per_call = ms * steps
    ms *= min(steps / (found.notes.usual_turns or steps), 1.0)  # calls are shorter while they are recorded
    what = f"each call takes {per_call:.3g} ms to be started and ended, with the loop around it"
    yield Cost(
        what, ms, ms * (1 - 1 / longer),
        None if epoch is None else ms * (1 - 1 / epoch), _choose_change(found, round(longer * steps), epoch),
    )  # fmt: skip


def _choose_longer(epoch: float | None) -> float:
    """How many times as long calls are to be: LONGER, in an epoch of so many calls the largest divisor up to that.

    Keras trains on after an epoch that is no multiple of the steps of a call.
    """
    if epoch is None or epoch != round(epoch):
        return min(LONGER, epoch or LONGER)
    divisors = [number for number in range(1, round(epoch) + 1) if epoch % number == 0]
    short = max(number for number in divisors if number <= LONGER)
    if short >= FEWEST or short == divisors[-1]:
        return short
    longer = min(number for number in divisors if number > LONGER)
    return longer if longer <= MOST_TIMES * LONGER else LONGER


def _choose_change(found: "Attribution", steps: int, epoch: float | None) -> str | None:
    """For Keras: with how many steps a call; None: the rule's."""
    if found.program != "keras":
        return COMPILED if found.program == "loop" and found.compiled and not found.device_waits else None
    if found.device_waits:
        return LARGER
    own = OWN.format(steps=steps) if found.notes.own_train_function else ""
    several = (found.notes.turns or 1) != 1  # of longer calls an epoch's steps are not noted
    if epoch is None or epoch % steps or several:
        return f"{own}set steps_per_execution={steps} of compile(), or another divisor of the steps of an epoch"
    return (
        f"{own}set steps_per_execution={steps} of compile(), a divisor of the steps of an epoch: with other numbers an "
        "epoch may train more of them"
    )


def _make_repeated_cost(found: "Attribution", ms: float) -> Cost:
    """Of several calls a step."""
    count = _count_calls(found)
    what = f"{count:.0f} calls of compiled functions a step take {ms / count:.3g} ms each to be started and ended"
    return Cost(what, ms, ms * (1 - 1 / count), change=WHOLE)


def _count_calls(found: "Attribution") -> float:
    """Of compiled functions, a step."""
    seen = 1 - 1 / found.calls if found.calls > 1 else 1.0  # those of the last step, which no other follows, are, too
    return sum(one.times for one in found.account.list("dispatch")) * seen


def list_repeated(found: "Attribution") -> list[Charge]:
    """What lies between operations in small functions that are called several times a step: mostly to start these."""
    often = {one.name: one.times for one in found.account.list("dispatch") if one.name and one.times >= OFTEN}
    operations = sum(cost.count for cost in found.costs if not cost.eager and cost.phase != "input")
    if operations > MOST * sum(often.values()):
        return []
    return [one for one in found.account.list("between") if one.name in often]


def _count_calls_of_epoch(found: "Attribution") -> float | None:
    """Calls as long as the training's usual ones; None: not known."""
    notes = found.notes
    if notes.calls_per_epoch is None:
        return None
    return notes.calls_per_epoch * ((notes.turns or 1) / notes.usual_turns if notes.usual_turns else 1.0)


RULE = Rule(
    "calls", "Calls cost more than their steps", find,
    {
        "engine": "raise train.steps_per_call", "card": "raise train.steps_per_call where epochs are longer",
        "keras": f"set steps_per_execution={LONGER} of compile(), or another divisor of the steps of an epoch",
        "loop": "take several steps in one tf.function, in a loop over tf.range",
        "jax": "take several steps in one call, by jax.lax.scan",
    },
    before="model.compile(optimizer, loss)",
    after=f"model.compile(optimizer, loss, steps_per_execution={LONGER})",
    keys={"engine": "train.steps_per_call", "card": "train.steps_per_call"},
)  # fmt: skip
