"""Which classes of `keras.layers` replicas can be trained with, in each form and in XLA: docs/ensembles_layers.md.

python -m tests.workloads.keras.stacked.conformance            # trains with each, writes the page
python -m tests.workloads.keras.stacked.conformance GRU LSTM   # these rows alone
"""

import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tests.workloads.keras.stacked.pairs import EXACT, compare_states, make_factory, train
from tests.workloads.keras.stacked.recipes import (
    LEFT_OUT,
    Recipe,
    build_model,
    collect_recipes,
    get_data,
    list_classes,
    use_precision,
)
from tfperf.workloads.keras.replicas.factory import KerasFactory
from tfperf.workloads.keras.replicas.forms import LANES, STACKED
from tfperf.workloads.keras.stacked.stack import list_refusals

PAGE = Path(__file__).parents[4] / "docs" / "ensembles_layers.md"
STEPS, REPLICAS = 2, 2
TOGETHER = 10  # layers in a model, at most
ROUNDED = 1e-5  # in float32: some hundred roundings of 2**-24 each
YES = "yes"
COLUMNS = tuple((form, xla) for form in (LANES, STACKED) for xla in (False, True))
# why a class fails in either form, where tfperf does not refuse it
NOT_IN_GRAPH: dict[str, str] = {}
NOT_IN_XLA = {"IntegerLookup": "XLA reads no tables of the host"}
TEXTS = "texts are refused"
HEAD = """# Layers in ensembles

Which classes of `keras.layers` replicas can be trained with, as lanes and as a stack (docs/ensembles.md), with and
without XLA, on a CPU. Each row is a training: {replicas} replicas of a tiny model with the layer take {steps} steps in
float64, and the stack's weights, statistics, seeds and metrics must be those of the lanes to {limit:.0e}; to
{rounded:.0e} where a layer works in float32 alone. The page is written, and compared with what is so, by
`tests/workloads/keras/stacked/conformance.py: write_page`; Keras {keras}.

| layer | {columns} |
|---|{line}|
"""
TAIL = """
Cells of recurrent layers are trained within `RNN`. Left out: {left}.
"""


def list_groups(names: Sequence[str]) -> list[list[str]]:
    """Names whose layers one model can have side by side: the same inputs, and in the stack's eyes the same."""
    recipes, found = collect_recipes(), defaultdict(list)
    for name in names:
        one = recipes[name]
        key = tuple(one.shapes), tuple(map(id, one.data)) if one.units is None else one.units, one.is_narrow
        found[*key, find_refusal(one)].append(name)
    return [some[i : i + TOGETHER] for some in found.values() for i in range(0, len(some), TOGETHER)]


def find_refusal(recipe: Recipe) -> str:
    """Why a model with the layer cannot be stacked, without the layer's name; empty where it can."""
    with use_precision(recipe):
        reasons = list_refusals(build_model([recipe]))
        return _shorten(reasons[0]) if reasons else ""


def measure_group(names: Sequence[str], modes: Sequence[bool] = (False, True)) -> dict[str, tuple[str, ...]]:
    """The cells of some rows, see COLUMNS. Layers that fail together are tried one by one; modes: with XLA or not."""
    cells = _measure(names, modes)
    keras.utils.clear_session()
    expected = {YES, find_refusal(collect_recipes()[names[0]])}
    if len(names) == 1 or {*cells} <= expected:
        return dict.fromkeys(names, cells)
    return {name: row for one in names for name, row in measure_group([one], modes).items()}


def _measure(names: Sequence[str], modes: Sequence[bool]) -> tuple[str, ...]:
    """The cells of layers side by side: yes, or why not."""
    recipes = [collect_recipes()[name] for name in names]
    if any(np.asarray(one).dtype.kind in "USO" for one in recipes[0].data):
        return (TEXTS,) * 2 * len(modes)

    def make() -> KerasFactory:
        return make_factory(lambda: build_model(recipes), get_data(recipes[0]), replicas=REPLICAS)

    with use_precision(recipes[0]):
        try:
            factory = make()
        except Exception as error:  # whatever a layer fails with is its row
            return (_explain(False, names[0], error),) * 2 * len(modes)
        ran: dict[bool, Any] = {}
        for xla in modes:
            if any(isinstance(one, str) for one in ran.values()):  # what it has traced is in the way
                factory = make()
            ran[xla] = _try(names[0], factory, LANES, xla)
        cells = [one if isinstance(one, str) else YES for one in ran.values()]
        if factory.refusals:
            return (*cells, *[_shorten(factory.refusals[0])] * len(modes))
        if coupling := factory.find_difference():
            return (*cells, *[coupling] * len(modes))
        limit = ROUNDED if recipes[0].is_narrow else EXACT
        cells += [_compare(factory, ran[xla], _try(names[0], factory, STACKED, xla), limit) for xla in modes]
    return tuple(cells)


def _try(name: str, factory: KerasFactory, form: str, xla: bool) -> Any:
    """What a training gives; why it fails, in words."""
    try:
        found = train(factory, form, STEPS, xla)
    except Exception as error:  # whatever a layer fails with is its row
        return _explain(xla, name, error)
    finite = all(np.isfinite(v).all() for key, v in found[0].items() if key.startswith("model/"))
    return found if finite else "weights that are not finite"


def _compare(factory: KerasFactory, lanes: Any, stack: Any, limit: float) -> str:
    if isinstance(stack, str) or isinstance(lanes, str):
        return stack if isinstance(stack, str) else "nothing to compare with"
    try:
        compare_states(factory, lanes, stack, limit)
    except AssertionError as error:
        return f"differs: {' '.join(str(error).split())[:200]}"
    return YES


def _explain(xla: bool, name: str, error: Exception) -> str:
    text = " ".join(str(error).split())
    return (NOT_IN_XLA if xla else NOT_IN_GRAPH).get(name) or shorten_error(f"{type(error).__name__}: {text[:300]}")


def shorten_error(text: str) -> str:
    """An error of XLA's without the names of the program's parts; another as it is."""
    if found := re.search(r"No registered '(\w+)' OpKernel for XLA", text):
        return f"XLA has no {found[1]}"
    if found := re.search(r"with op (\w+) must be a compile-time constant", text):
        return f"XLA must know what is given to {found[1]} when it compiles"
    return text


def _shorten(reason: str) -> str:
    """Without the layer's name, which the row has: "Lambda (lambda) has no stacked form"."""
    return re.sub(r"^\w+ \(\w+\):? (?:has )?", "", reason)


def read_page() -> dict[str, tuple[str, ...]]:
    """The rows of the page as it is, by the class."""
    lines = PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else []
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    return {row[0].split("`")[1]: tuple(row[1:]) for row in rows}


def write_page(rows: Mapping[str, Sequence[str]]) -> None:
    """The page of these rows."""
    aliases = list_classes()
    columns = [f"{form}, {'XLA' if xla else 'graph'}" for form, xla in COLUMNS]
    text = HEAD.format(
        replicas=REPLICAS, steps=STEPS, limit=EXACT, rounded=ROUNDED, keras=keras.__version__,
        columns=" | ".join(columns), line="|".join("---" for _ in columns),
    )  # fmt: skip
    for name in sorted(rows):
        also = "".join(f", `{one}`" for one in aliases[name])
        text += f"| `{name}`{also} | {' | '.join(one.replace('|', '/') for one in rows[name])} |\n"
    left: dict[str, list[str]] = {}
    for name, reason in LEFT_OUT.items():
        left.setdefault(reason, []).append(f"`{name}`")
    text += TAIL.format(left="; ".join(f"{', '.join(names)} ({reason})" for reason, names in left.items()))
    PAGE.write_text(text, encoding="utf-8")


def main(names: Sequence[str]) -> None:
    """Train, print and write rows as they come."""
    recipes, rows = collect_recipes(), read_page()
    for group in list_groups([*names] or sorted(recipes)):
        rows |= measure_group(group)
        print(*((name, rows[name]) for name in group), sep="\n", flush=True)
        write_page({name: row for name, row in rows.items() if name in recipes})


if __name__ == "__main__":
    main(sys.argv[1:])
