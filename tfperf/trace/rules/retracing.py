"""Functions that are traced or compiled again while steps go on."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tfperf.trace.ledger import NOT_SAID, Entry, get_function
from tfperf.trace.notes import FIRST_CALL, MADE_ANEW
from tfperf.trace.rules.rule import Cost, Rule, format_times

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution


def find(found: "Attribution") -> Iterator[Cost]:
    """All of it is given back where no step traces or compiles; first calls of functions are not repeated."""
    first = find_first_calls(found.ledger)
    ledger = [entry for entry in found.ledger if entry not in first]
    if first and not ledger:
        return
    seconds, every = (_sum_seconds(entries) for entries in (ledger, found.ledger))
    ms = 0.0
    for charge in found.account.list("compilation"):
        name = get_function(charge.name)
        ms += charge.ms * (seconds[name] / every[name] if every[name] else 1.0)
    if not ledger:
        yield Cost("functions are traced or compiled while steps go on; the profile does not tell which", ms, ms)
        return
    yield Cost(f"{_describe(ledger, seconds)} in {len(found.steps)} steps: {_explain(ledger, seconds)}", ms, ms)


def _describe(ledger: Sequence[Entry], seconds: Mapping[str, float]) -> str:
    """Which functions, those that take longest first, and how often."""
    told = _list_told(ledger, seconds)
    names = ", ".join(dict.fromkeys(entry.function for entry in told))
    verbs = {"trace": "traced", "compilation": "compiled"}
    return f"{names}: {' or '.join(dict.fromkeys(verbs[one.kind] for one in told))} anew {format_times(len(told))}"


def _explain(ledger: Sequence[Entry], seconds: Mapping[str, float]) -> str:
    causes = dict.fromkeys(entry.cause for entry in _list_told(ledger, seconds))
    # a function is made anew inside of another whose graph is traced for a cause of its own
    known = sorted((cause for cause in causes if cause != NOT_SAID), key=(FIRST_CALL, MADE_ANEW).__contains__)
    return "; ".join(known[:2]) or "why is not recorded; is the function made anew each time?"


def _list_told(ledger: Sequence[Entry], seconds: Mapping[str, float]) -> list[Entry]:
    """Those of functions that take longest first; what is traced and then compiled counts once."""
    traced = {entry.function for entry in ledger if entry.kind == "trace"}
    told = [entry for entry in ledger if entry.kind == "trace" or entry.function not in traced]
    return sorted(told, key=lambda entry: -seconds[entry.function])


def find_first_calls(ledger: Iterable[Entry]) -> list[Entry]:
    """Those of functions of which none was called before, and none is again for the first time."""
    first = [entry for entry in ledger if entry.cause == FIRST_CALL]
    counts = Counter((entry.kind, entry.function) for entry in first)
    return [entry for entry in first if counts[entry.kind, entry.function] == 1]


def _sum_seconds(ledger: Iterable[Entry]) -> defaultdict[str, float]:
    """By function."""
    out = defaultdict[str, float](float)
    for entry in ledger:
        out[entry.function] += entry.seconds
    return out


SHAPES = "keep shapes, dtypes and Python arguments the same from step to step"
RULE = Rule(
    "retracing", "Functions are traced or compiled again", find,
    {
        "engine": SHAPES, "card": f"{SHAPES}: give all batches one size and all samples one length",
        "keras": f"{SHAPES}: pad to few lengths, and drop the remainder of .batch()",
        "loop": f"{SHAPES}: make the tf.function once, outside of the loop, pass numbers as tensors, and pad to few "
                "lengths or give it an input_signature",
        "jax": f"{SHAPES}: call jax.jit once, outside of the loop, and pad to few lengths",
    },
    before="""for number, (x, y) in enumerate(batches):  # batches of many lengths
    step(x, y, number)  # a new Python number each time""",
    after="""step = tf.function(step, input_signature=[...])
for number, (x, y) in enumerate(batches):
    step(pad(x), y, tf.constant(number))""",
)  # fmt: skip
