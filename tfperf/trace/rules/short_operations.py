"""Operations that are too short for what it takes to start them."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tfperf.trace.launches import PRODUCT, SHORT_US
from tfperf.trace.phases import strip_kind
from tfperf.trace.rules.calls import LARGER, list_repeated
from tfperf.trace.rules.rule import Cost, Rule
from tfperf.trace.xla_kinds import list_absent, list_slower

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution
    from tfperf.trace.costs import OperationCost

SHORT = 0.5  # share of operations that are short
HOLE_MS = 0.05  # between one operation and the next that it starts, at most
SAVED = 0.9  # share of that time that compiled programs did without, 0.73 to 1.1 in those that were measured
STEP_START_MS = 0.1  # what a program of XLA takes to be started in a step of Keras on a processor: 0.08 to 0.12
START_MS = 0.03  # the same of a call, beside what that takes without XLA, up to 0.05
ASSIGNED_MS = 0.0025  # for each variable that a program of XLA assigns, on a processor: 0.002 to 0.0026
ASSIGN = re.compile(r"Assign(Add|Sub)?VariableOp|Resource(Apply|SparseApply|Scatter)\w+")
LOST = 0.5  # share of what XLA would save, from which on what it computes slower makes it no change to advise
MORE = "double the batch, for half as many steps: XLA, which makes few programs of many operations, {why}"
HOLES = 0.2  # share of the step from which on holes between operations tell, however long those are
FUSED_US, FEW_PRODUCTS = 100.0, 0.2  # operations up to which, and beside what share of products, XLA makes one of many
ONE_LOOP = 0.9  # share of the operations' time that is in the training's own loop, where there is no other
NAMED = 3  # kinds that are named
LOOP = re.compile(r"while(_\d+)?")


def find(found: "Attribution") -> Iterator[Cost]:
    """Most of the time between them; XLA makes few programs of them. Kernels count, where there is an accelerator.

    On a processor some of their own time is no work, either. TensorFlow records none of the shortest there, so that the
    time of a call in which it records nothing is theirs, where that is most of the call.
    """
    if found.compiled:
        return
    account = found.account
    accelerators = {d: a for d, a in found.any.items() if "CPU" not in d}
    every = accelerators or found.any
    busiest = max(every, key=lambda device: float(every[device].sum()), default=None)
    launches = None if busiest is None else found.launches[busiest]
    ms = account.sum("between") - sum(one.ms for one in list_repeated(found))
    fused = 0.0 if accelerators else _compute_fused_share(found)
    change = _choose_change(found)
    holes = HOLE_MS * launches.per_step if launches is not None else 0.0
    hidden = not accelerators and len(every) <= 1 and ms > max(account.sum("work"), holes)
    start = 0.0 if accelerators or change == LARGER else _estimate_start(found, hidden)
    if hidden:
        what = "most of a call goes to operations that are too short to be recorded"
        yield _make_cost(found, what, ms, start, change)
    elif launches is not None and (launches.short > SHORT or (fused > SHORT and ms >= HOLES * account.period_ms)):
        ms += 0.0 if accelerators else max(launches.starts, fused) * account.sum("work")
        what = f"between the {launches.per_step:.0f} operations of a step nothing runs: {launches.short:.0%} of them"
        yield _make_cost(found, f"{what} take less than {SHORT_US:g} us", ms, start, change)


def _make_cost(found: "Attribution", what: str, ms: float, start_ms: float, change: str | None) -> Cost:
    """Of ms between operations; a compiled program has to be started, and may compute some operations slower."""
    saved, more = SAVED * ms, {} if change == LARGER else _list_slower(found)
    gain = saved - start_ms
    if change != LARGER and (why := _explain_obstacle(found, gain, more)):
        return Cost(what, saved, saved / 2, ms, MORE.format(why=why))
    return Cost(what, saved, gain - sum(more.values()), ms, change)


def _explain_obstacle(found: "Attribution", saved_ms: float, more: Mapping[str, float]) -> str:
    """Why XLA would not help: what it cannot compile, or computes slower by much of what it saves; else empty."""
    if found.program in ("keras", "loop") and (absent := list_absent(_list_compiled(found))):
        return f"cannot compile {', '.join(absent[:NAMED])}"
    if saved_ms > 0 and sum(more.values()) > LOST * saved_ms:
        return f"computes {', '.join([*more][:NAMED])} slower than TensorFlow on a processor"
    return ""


def _list_slower(found: "Attribution") -> dict[str, float]:
    """By kind, ms a step more in a program of XLA; of accelerators, and cards, which try it first, nothing."""
    if found.program not in ("keras", "loop") or any("CPU" not in device for device in found.any):
        return {}
    return list_slower(_list_compiled(found))


def _list_compiled(found: "Attribution") -> list["OperationCost"]:
    """What would be in a program of XLA."""
    return [one for one in found.costs if one.phase not in ("input", "validation") and not one.eager]


def _choose_change(found: "Attribution") -> str | None:
    """Where Keras' setting does nothing, or fails, another; None: the rule's."""
    if found.program != "keras":
        return None
    if found.device_waits:
        return LARGER
    return RULE.changes["loop"] if found.notes.own_train_function else None


def _estimate_start(found: "Attribution", hidden: bool) -> float:
    """ms a step; in `fit` and for cards each step is a program, else what a call takes, however many steps it has.

    hidden: where most operations are not recorded, their own time, which goes, too, is as long as a call's start.
    """
    assigned = ASSIGNED_MS * sum(one.count for one in found.costs if ASSIGN.fullmatch(strip_kind(one.kind)))
    if found.program in ("card", "keras"):
        return STEP_START_MS + assigned
    return ((0.0 if hidden else START_MS) + assigned) * min(found.calls / max(len(found.steps), 1), 1.0)


def _has_loops(found: "Attribution") -> bool:
    """Whether a part of the operations' time is in loops in which the rest is not; that of the training has all."""
    depths: dict[int, float] = {}
    for one in (one for one in found.costs if one.phase != "input"):
        depth = max((sum(bool(LOOP.fullmatch(level)) for level in scope.split("/")) for scope in one.scopes), default=0)
        depths[depth] = depths.get(depth, 0.0) + one.ms
    return bool(depths) and max(depths.values()) < ONE_LOOP * sum(depths.values())


def _compute_fused_share(found: "Attribution") -> float:
    """Share of the operations' time of those that XLA makes one of many; none beside products, or in loops."""
    mine = [one for one in found.costs if one.phase != "input"]
    every = sum(one.ms for one in mine)
    products = sum(one.ms for one in mine if PRODUCT.search(one.kind))
    if not every or products > FEW_PRODUCTS * every or _has_loops(found):
        return 0.0
    short = (one.ms for one in mine if 1e3 * one.ms < FUSED_US * one.count and not PRODUCT.search(one.kind))
    return sum(short) / every


RULE = Rule(
    "short_operations", "Operations are short", find,
    {
        "engine": "set engine.xla: true, or train more replicas at once", "card": "set engine.xla: true",
        "keras": "set jit_compile=True of compile(), or raise the batch size",
        "loop": "compile the step with @tf.function(jit_compile=True), its batch an argument of it",
        "jax": "put the whole step into one jax.jit",
    },
    before="model.compile(optimizer, loss, jit_compile=False)",
    after="model.compile(optimizer, loss, jit_compile=True)",
    least=0.1,
    keys={"engine": "engine.xla", "card": "engine.xla"},
)  # fmt: skip
