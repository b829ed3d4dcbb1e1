"""tfperf's losses at the peer's dumped weights and quadrature nodes: `python -m benchmarks.peer.equality DUMP SIZE`.

Everything that trains is in it: network, preprocessing, sum rules, contraction, masks, covariance, in float64; DUMP
comes from n3fit_side.py --dump. In the peer's float32 its own losses are good to about 1e-6.
"""

from pathlib import Path

import click
import numpy as np

from benchmarks.peer.cache import load_problem
from benchmarks.peer.problem import SIZES, Float64Array
from benchmarks.peer.reference import Dump, read_dump

LIMIT = 1e-5


def convert_weights(dump: Dump) -> dict[str, Float64Array]:
    """tfperf's weights by name (R, ...) from those of a dump."""
    out: dict[str, Float64Array] = {}
    for i in range(3):
        out[f"dense_{i}/kernel"] = dump[f"kernel{i}"]
        out[f"dense_{i}/bias"] = dump[f"bias{i}"][:, :, None]
    return out | {f"preprocessing/{k}": dump[f"{k}s"][:, :, None] for k in ("alpha", "beta")}


def evaluate_losses(dump: Dump, size: str, form: str = "shared") -> dict[str, Float64Array]:
    """Training and validation chi2 (R), and the positivity penalty without multiplier, of a form of the losses."""
    import tensorflow as tf

    from benchmarks.peer.ours import build_peer_problem, make_card
    from tfperf.workloads.pdf.forms import build_form
    from tfperf.workloads.pdf.layers.quadrature import Quadrature
    from tfperf.workloads.pdf.layers.sum_rules import SumRuleNormalisation
    from tfperf.workloads.pdf.losses import ReplicaLosses
    from tfperf.workloads.pdf.model import PDF

    replicas = len(dump["kernel0"])
    settings, problem = make_card(size, replicas, precision="float64"), build_peer_problem(size, replicas)
    model = PDF(settings.model, replicas, "float64")
    model.rule = Quadrature(dump["x_integration"], dump["weights_integration"])
    model.sum_rules = SumRuleNormalisation(model.rule, analytic_tail=False, dtype="float64")
    model.assign_weights(convert_weights(dump))
    compiled = build_form(settings, problem, "folded").build_constants(problem, "float64") if form == "folded" else None
    replica_losses = ReplicaLosses(settings, problem, compiled)
    found = replica_losses(model.evaluate_at(model.prepare(replica_losses.x)))
    tf.debugging.assert_all_finite(found.training, "a loss is not finite")
    return {k: getattr(found, k).numpy() for k in ("training", "validation", "positivity")}


def compute_deviations(dump: Dump, size: str, form: str = "shared") -> dict[str, float]:
    """Largest difference of each loss to the peer's over the replicas, relative where the loss is above 1."""
    meta = load_problem(size)["meta"]
    experiments = [e["name"] for e in meta["experiments"]]
    positive = [p["name"] for p in meta["penalties"] if not p["integrability"]]
    peer = {s: sum(dump[f"loss/{s}/{e}"] for e in experiments) for s in ("training", "validation")}
    if positive:
        peer["positivity"] = sum(dump[f"loss/training/{p}"] / dump[f"lambda/{p}"] for p in positive)
    found = evaluate_losses(dump, size, form)
    return {k: float(np.max(np.abs(found[k] - v) / np.maximum(np.abs(v), 1.0))) for k, v in peer.items()}


@click.command()
@click.argument("dump", type=click.Path(exists=True, path_type=Path))
@click.argument("size", type=click.Choice(SIZES))
def main(dump: Path, size: str) -> None:
    """Print how far tfperf's losses are from those of a DUMP; exit code 1 when one is off by more than 1e-5."""
    worst = 0.0
    for form in ("shared", "folded"):
        for key, value in compute_deviations(read_dump(dump), size, form).items():
            click.echo(f"{form:8} {key:12} {value:.2e}")
            worst = max(worst, value)
    raise SystemExit(worst > LIMIT)


if __name__ == "__main__":
    main()
