"""Updates of all rows of a table of which a batch touches few."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.rules.rule import Cost, Rule

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution


def find(found: "Attribution") -> Iterator[Cost]:
    """What would be free without them."""
    rules = found.notes.rules
    mine = [(cost, tables) for cost in found.costs if (tables := rules.find_tables(cost.scopes))]
    if mine:
        names = ", ".join(dict.fromkeys(name for _, tables in mine for name in tables))
        free, every = (found.account.work_kept * ms for ms in (found.tables_ms, sum(cost.ms for cost, _ in mine)))
        own = 2 * sum(cost.ms for cost, _ in mine if cost.phase != "update") > every
        what = f"{'the step' if own else 'the update'} goes over all rows of {names}, whatever rows a batch has"
        yield Cost(what, free, free, max(free, every), change=ROWS if own else None)


SPARSE = (
    "use an optimizer that touches the rows of a batch alone, with which training goes otherwise: SGD without "
    "momentum, or a lazy Adam, which Keras has not; or make the table smaller"
)
ROWS = "gather the rows of a batch, work on these alone, regularisers too, and scatter them back"
RULE = Rule(
    "table_update", "All rows of a table are updated", find,
    {
        "engine": SPARSE, "card": SPARSE, "keras": SPARSE, "loop": SPARSE,
        "jax": SPARSE,
    },
    before="model.compile(keras.optimizers.Adam(), loss)  # decays the moments of all rows",
    after="model.compile(keras.optimizers.SGD(), loss)",
)  # fmt: skip
