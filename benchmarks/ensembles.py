"""What an epoch of many copies of a Keras model costs beside as many fits by Keras, and beside JAX."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from statistics import median

import click

from benchmarks.ensembles_models import BATCH, PARTS, SAMPLES, VALIDATED
from benchmarks.ensembles_sides import HOW, EnsembleRig, EpochSize, Form, JaxSide, prepare_fit
from benchmarks.keras_fit import STEPS_PER_EXECUTION, Train
from benchmarks.registry import Row, make_ratio_columns, register_benchmark
from benchmarks.towers import describe_goal
from tfperf.errors import UserError
from tfperf.measure.confidence import estimate_geometric_mean

ROUNDS = 9
SLOWER = 1.05  # of fit's time, which what `auto` chose must not take
OURS, JAX = "tfperf", "jax"
FORMS: Mapping[str, tuple[Form, bool]] = {
    "lanes graph": ("lanes", False), "lanes XLA": ("lanes", True),
    "stacked graph": ("stacked", False), "stacked XLA": ("stacked", True),
}  # fmt: skip


@register_benchmark(
    "ensembles",
    claim="R copies of a model train in one program faster than by R fits of Keras' in its best setting: "
    + ", ".join(f"{name} (R = {part.replicas}) {part.goal:g} times" for name, part in PARTS.items())
    + f"; engine.form: auto never takes over {SLOWER} of the time of fit",
    sweep=f"{', '.join(PARTS)} (--only); Keras with steps_per_execution {', '.join(map(str, STEPS_PER_EXECUTION))}, "
    f"jit on and off, arrays in memory; --jax PYTHON: an ensemble on Keras' JAX backend as well ({HOW}); --forms: each "
    f"form with and without XLA; {ROUNDS} rounds in turn (--rounds), of {SAMPLES} samples (--records)",
    unit=f"an epoch of all R replicas, ms, median: {SAMPLES} samples in batches of {BATCH}, metrics, validation on "
    f"{VALIDATED}, patience, best weights; fit: R times one replica's; ratios: fit's time, or JAX', over tfperf's, "
    "geometric mean of the rounds with its 95 % interval",
)
def measure_ensembles(
    only: str = "", rounds: int = ROUNDS, jax: Path | None = None, forms: bool = False, records: int = SAMPLES
) -> Iterator[Row]:
    """A row for each part; records: samples of an epoch, about a quarter as many validate.

    Raises: UserError where `only` names no part, or `jax` no Python that has JAX.
    """
    names = only.split(",") if only else [*PARTS]
    for name in names:
        if name not in PARTS:
            raise UserError(f"--only: got {name!r}; must be some of {', '.join(PARTS)}, separated by commas")
    if records % BATCH:
        raise UserError(f"--records: got {records}; must be a multiple of {BATCH}, the samples of a batch")
    size = EpochSize(records, -(-records // (4 * BATCH)) * BATCH)
    for name in names:
        with ExitStack() as stack:
            side = None if jax is None else stack.enter_context(JaxSide(jax, name, size))
            yield _measure_part(name, rounds, size, side, forms)


def _measure_part(name: str, rounds: int, size: EpochSize, jax_side: JaxSide | None, forms: bool) -> Row:
    rig = EnsembleRig(name, size)
    ours = rig.prepare()
    assert ours is not None  # there are lanes of any model
    sides: dict[str, Train] = {OURS: ours.train}
    if jax_side is not None:
        sides[JAX] = jax_side.train
    for label, form in FORMS.items() if forms else ():
        if (side := rig.prepare(*form)) is not None:
            sides[label] = side.train
    fits = _prepare_fits(name, size)
    times: dict[str, list[float]] = {label: [] for label in (*sides, *fits)}
    for number in range(1, rounds + 1):
        for label, train in (sides | fits).items():
            times[label].append(train() * (PARTS[name].replicas if label in fits else 1))
        told = ", ".join(f"{label} {1e3 * some[-1]:.4g}" for label, some in times.items())
        click.echo(f"{name}, round {number} of {rounds}, ms: {told}", err=True)
    row = make_row(name, ours.describe(), times, [*fits], forms)
    way = "n/a" if jax_side is None else jax_side.spread
    return row | {"jax_form": way, "samples": size.samples, "validated": size.validated}


def _prepare_fits(name: str, size: EpochSize) -> dict[str, Train]:
    """Keras' `fit` of one replica in each setting that it can be had in."""
    found = {}
    for steps, jit in product(STEPS_PER_EXECUTION, (False, True)):
        label = f"fit {steps} step{'s' * (steps > 1)} {'jit' if jit else 'graph'}"
        try:
            found[label] = prepare_fit(name, size, steps, jit)
        except Exception:  # XLA cannot compile every model
            if not jit:
                raise
    return found


def make_row(
    name: str, form: str, times: Mapping[str, Sequence[float]], fits: Sequence[str], forms: bool = False
) -> Row:
    """What the rounds say of a part. form: what `auto` chose; times: seconds of an epoch of all by side and round.

    fits: the sides that are Keras' `fit`, of which the best counts; forms: columns for each form.
    """
    best = min(fits, key=lambda label: median(times[label]))
    ratio = estimate_geometric_mean([fit / own for fit, own in zip(times[best], times[OURS], strict=True)])
    row: Row = {"part": name, "R": PARTS[name].replicas, "rounds": len(times[OURS]), "form": form}
    row |= {"tfperf_ms": 1e3 * median(times[OURS]), "best_fit": best, "fit_ms": 1e3 * median(times[best])}
    row |= make_ratio_columns("ratio", times[best], times[OURS])
    row |= {"goal": describe_goal(PARTS[name].goal, ratio), "auto_fails": describe_failure(ratio.high)}
    row["jax_ms"] = 1e3 * median(times[JAX]) if JAX in times else f"n/a: {HOW}"
    row |= (
        make_ratio_columns("jax_ratio", times[JAX], times[OURS]) if JAX in times
        else dict.fromkeys(("jax_ratio", "jax_ratio_low", "jax_ratio_high"), "n/a")
    )  # fmt: skip
    for label in FORMS if forms else ():
        row[f"{label}_ms"] = 1e3 * median(times[label]) if label in times else "n/a"
    return row


def describe_failure(high: float | None) -> str:
    """Whether even the upper limit of fit's time over tfperf's is below what `auto` must keep to."""
    if high is None:
        return "one round cannot tell"
    return "yes" if high < 1 / SLOWER else "no"
