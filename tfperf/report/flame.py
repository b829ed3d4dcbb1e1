"""Operations of a profile by the scopes that they come from, as a flame graph without any script."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tfperf.report.ablation import format_digits
from tfperf.report.page import escape_text, render_paragraph
from tfperf.report.plots_profile import COLOURS
from tfperf.scopes import PREFIX
from tfperf.trace.costs import OperationCost
from tfperf.trace.phases import GRADIENTS, PHASES, SCAFFOLD, Phase

WIDTH, ROW, LETTER, MARGIN = 1200, 18, 6.6, 4  # units of the picture: pixels of a page that is as wide
LEAST = 0.003  # share of the whole below which parts are folded into one
DEEPEST = 10  # levels below a phase
OTHER = "other"
DARK = frozenset(COLOURS[phase] for phase in ("backward", "merge", "update", "validation", "callback", "transfer"))
WRAPPED = re.compile(r"\w+\((.*)\)")  # what JAX puts around a scope: jit(step), transpose(jvp(dense))
SAID = (
    "Milliseconds a step of operations, summed over threads, streams and devices: what runs at once counts as often. "
    "From the top: phase, scopes or layers, operation. Of what is fused each scope has an equal part. "
    "A part's own text says its time."
)


@dataclass
class ScopeNode:
    """A scope's time in ms a step, with what is inside of it, by name."""

    ms: float = 0.0
    inner: dict[str, "ScopeNode"] = field(default_factory=dict)

    def add(self, path: Sequence[str], ms: float) -> None:
        """Add time to the scope and along a path inside of it."""
        self.ms += ms
        if path:
            self.inner.setdefault(path[0], ScopeNode()).add(path[1:], ms)

    @property
    def depth(self) -> int:
        """Levels of it, its own counted."""
        return 1 + max((one.depth for one in self.inner.values()), default=0)


def render_flame(costs: Sequence[OperationCost]) -> str:
    """The section of the page."""
    whole = sum_scopes(costs)
    if not whole.ms:
        return render_paragraph("No operation ran.")
    _fold_small(whole, LEAST * whole.ms)
    parts = "".join(_render_inner(whole, whole.ms, 0.0, 0, "", None))
    label = escape_text("Time of operations by phase and scope; tables below have the same figures.")
    height = ROW * (whole.depth - 1)
    svg = f'<svg class="flame" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">{parts}</svg>'
    total = f" All: {format_digits(whole.ms)} ms a step."
    return f'{render_paragraph(SAID + total, "soft")}<div class="wide">{svg}</div>'


def sum_scopes(costs: Sequence[OperationCost]) -> ScopeNode:
    """The tree of scopes: phases in their order, then the function where a phase has several, then scopes."""
    whole = ScopeNode()
    for phase in PHASES:
        mine = [cost for cost in costs if cost.phase == phase]
        # in whose call a pipeline's own threads work says nothing
        several = phase != "input" and len({cost.function for cost in mine}) > 1
        for cost in mine:
            head = [phase, *([cost.function or "(no function)"] if several else [])]
            for scope in cost.scopes or ("",):
                whole.add([*head, *list_levels(scope, cost)][: DEEPEST + 1], cost.ms / max(len(cost.scopes), 1))
    return whole


def list_levels(scope: str, cost: OperationCost) -> list[str]:
    """Scopes around an operation, from the outermost on, and the operation; without what only loops and tapes add.

    Source of the names: `gradient_tape/dense/MatMul/MatMul_1` is a gradient's of `dense/MatMul`.
    """
    levels = [_strip_wrappers(level) for level in scope.split("/")]
    around = levels[: -2 if GRADIENTS & set(levels) else -1]  # a gradient's own name stands behind the operation's
    own = (level for level in around if not (SCAFFOLD.fullmatch(level) or level.startswith(PREFIX)))
    return [*(level for level in own if level not in GRADIENTS), cost.kind]


def _strip_wrappers(level: str) -> str:
    """A scope without what JAX writes around it."""
    while found := WRAPPED.fullmatch(level):
        level = found[1]
    return level


def _fold_small(node: ScopeNode, least: float) -> None:
    """Put what is smaller than `least` ms into one part; where only one is, it stays."""
    small = [name for name, one in node.inner.items() if one.ms < least]
    if len(small) > 1:
        folded = ScopeNode(sum(node.inner.pop(name).ms for name in small))
        node.inner[f"{OTHER} ({len(small)})"] = folded
    for one in node.inner.values():
        _fold_small(one, least)


def _render_inner(
    node: ScopeNode, whole: float, left: float, depth: int, path: str, colour: Phase | None
) -> Iterator[str]:
    """What is inside of a scope, from its left edge on: phases in their order, else the largest first."""
    inner = list(node.inner.items())
    for name, one in inner if colour is None else sorted(inner, key=lambda item: -item[1].ms):
        phase: Phase = next((p for p in PHASES if p == name), "other") if colour is None else colour
        width = WIDTH * one.ms / whole
        full = f"{path} / {name}" if path else name
        yield _render_part(name, full, one.ms, whole, left, depth, COLOURS[phase])
        yield from _render_inner(one, whole, left, depth + 1, full, phase)
        left += width


def _render_part(name: str, full: str, ms: float, whole: float, left: float, depth: int, colour: str) -> str:
    width = WIDTH * ms / whole
    said = escape_text(f"{full}: {format_digits(ms)} ms a step ({ms / whole:.1%})")
    letters = int((width - 2 * MARGIN) / LETTER)
    text = name if len(name) <= letters else f"{name[: letters - 1]}…" if letters > 3 else ""
    ink = "#fff" if colour in DARK else "#1c2430"
    place = f'x="{left:.2f}" y="{depth * ROW}" width="{width:.2f}" height="{ROW}"'
    label = (
        f'<text x="{left + MARGIN:.2f}" y="{depth * ROW + 13}" fill="{ink}">{escape_text(text)}</text>' if text else ""
    )
    return f'<g><title>{said}</title><rect {place} fill="{colour}"/>{label}</g>'
