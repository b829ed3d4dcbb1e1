"""The peer's model and losses in NumPy float64, one plain formula after the other, from the weights of a dump.

    python -m benchmarks.peer.reference DUMP PROBLEM

prints how far the losses in the dump are from these. It is the description of the peer's conventions:

1. Input (x, log x), unscaled; tanh, tanh, linear; one network per replica with biases. Nothing is subtracted at x = 1.
2. Prefactor x^(1 - alpha) (1 - x)^beta per replica and flavour; the products are x f(x) of sng, g, v, v3, v8, t3, t8,
   t15.
3. To the 14 flavours of the FK basis: v15 = v24 = v35 = v, t24 = t35 = sng, photon 0; t15 is fitted.
4. Sum rules by trapezoids on 2000 nodes, 1000 of them logarithmic in [1e-9, 0.1), the others linear in [0.1, 1]; v, v3,
   v8, v15 are divided by x, sng and g are not. g *= (1 - int sng) / int g; v, v15, v24, v35 *= 3 / int v;
   v3 *= 1 / int v3; v8 *= 3 / int v8.
5. chi2 of an experiment with the inverse of the masked covariance, not divided by the number of points.
6. Positivity: sum of elu(-lambda y), alpha = 1e-7. Integrability: sum of (lambda y)^2, the multiplier inside the
   square. Validation counts positivity, with the initial multiplier for ever, and no integrability.

The peer works in float32 unless asked otherwise; so do the weights and nodes of its dumps.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.peer.problem import Float64Array, Problem, invert_covariance, load_problem, predict

Dump = Mapping[str, Any]
Losses = dict[str, Float64Array]
ELU_ALPHA = 1e-7
SIGMA, G = 1, 2
# index in the FK basis -> (index whose integral counts, what it must be)
VALENCE = {3: (3, 3.0), 4: (4, 1.0), 5: (5, 3.0), 6: (6, 3.0), 7: (3, 3.0), 8: (3, 3.0)}
DIVIDED_BY_X = (3, 4, 5, 6)


def read_dump(path: Path) -> Dump:
    """A dump of n3fit_dump.py; floats as float64, `meta` as a mapping."""
    with np.load(path) as file:
        dump = {k: file[k] if k == "meta" else file[k].astype(np.float64) for k in file.files}
    return dump | {"meta": json.loads(str(dump["meta"]))}


def evaluate_network(dump: Dump, x: Float64Array) -> Float64Array:
    """Outputs of the networks at nodes x (X): (R, X, 8)."""
    h = np.broadcast_to(np.stack([x, np.log(x)], axis=-1), (len(dump["kernel0"]), len(x), 2))
    for i, activation in enumerate(dump["meta"]["activations"]):
        h = h @ dump[f"kernel{i}"] + dump[f"bias{i}"][:, None]
        h = np.tanh(h) if activation == "tanh" else h
    return np.asarray(h)


def evaluate_unnormalised(dump: Dump, x: Float64Array) -> Float64Array:
    """x f(x) in the FK basis before the sum rules: (R, X, 14)."""
    node = x[None, :, None]
    prefactor = node ** (1 - dump["alphas"][:, None]) * (1 - node) ** dump["betas"][:, None]
    return np.asarray(prefactor * evaluate_network(dump, x) @ dump["rotation"])


def compute_normalisation(dump: Dump) -> Float64Array:
    """The factors that impose the sum rules: (R, 14)."""
    x, weights = dump["x_integration"], dump["weights_integration"]
    integrand = evaluate_unnormalised(dump, x)
    integrand[..., DIVIDED_BY_X] /= x[:, None]
    integral = np.einsum("rxf,x->rf", integrand, weights)
    factors = np.ones(integral.shape)
    factors[:, G] = (1 - integral[:, SIGMA]) / integral[:, G]
    for flavour, (source, value) in VALENCE.items():
        factors[:, flavour] = value / integral[:, source]
    return factors


def evaluate_pdf(dump: Dump, x: Float64Array) -> Float64Array:
    """x f(x) in the FK basis: (R, X, 14)."""
    return np.asarray(compute_normalisation(dump)[:, None] * evaluate_unnormalised(dump, x))


def evaluate_losses(dump: Dump, problem: Problem) -> Losses:
    """The losses of the dump's initial state under the dump's own keys, (R) each. Takes dumps of basis `exp`."""
    if dump["meta"]["basis"] != "exp":
        raise ValueError(f"basis {dump['meta']['basis']!r}; only `exp` is implemented")
    values = evaluate_pdf(dump, dump["x_fit"])
    found: Losses = {}
    for experiment in problem["meta"]["experiments"]:
        found |= _compute_chi2(problem, experiment, values)
    for penalty in problem["meta"]["penalties"]:
        found |= _compute_penalty(problem, penalty, values, dump[f"lambda/{penalty['name']}"])
    for split in ("training", "validation"):
        terms = [value for key, value in found.items() if key.startswith(f"loss/{split}/")]
        found[f"loss/{split}/total"] = np.sum(terms, axis=0)
    return found


def compute_deviations(dump: Dump, problem: Problem) -> dict[str, float]:
    """Largest |dumped - recomputed| over the replicas, relative to the recomputed loss (of the PDF: to its maximum)."""
    values = evaluate_pdf(dump, dump["x_fit"])
    worst = {"pdf": float(np.max(np.abs(dump["pdf"] - values) / np.max(np.abs(values), axis=(1, 2), keepdims=True)))}
    for key, value in evaluate_losses(dump, problem).items():
        worst[key] = float(np.max(np.abs(dump[key] - value) / np.maximum(np.abs(value), np.finfo(np.float64).tiny)))
    return worst


def _predict_dataset(problem: Problem, dataset: Mapping[str, Any], values: Float64Array) -> Float64Array:
    """(R, N) of one dataset."""
    table = problem[f"fk/{dataset['name']}"].astype(np.float64)
    return np.stack([predict(table, dataset["kind"], dataset["basis"], v) for v in values])


def _compute_chi2(problem: Problem, experiment: Mapping[str, Any], values: Float64Array) -> Losses:
    name = experiment["name"]
    cov, data, masks = (problem[f"exp/{name}/{key}"] for key in ("cov", "data", "trmask"))
    predictions = np.concatenate([_predict_dataset(problem, d, values) for d in experiment["datasets"]], axis=-1)
    found = {}
    for split, chosen in (("training", masks), ("validation", ~masks)):
        residuals = [(y - d)[m] for y, d, m in zip(predictions, data, chosen, strict=False)]
        chi2 = [e @ invert_covariance(cov, m) @ e for e, m in zip(residuals, chosen, strict=False)]
        found[f"loss/{split}/{name}"] = np.array(chi2)
    return found


def _compute_penalty(
    problem: Problem, penalty: Mapping[str, Any], values: Float64Array, multiplier: Float64Array
) -> Losses:
    name, y = penalty["name"], multiplier * _predict_dataset(problem, penalty, values)
    if penalty["integrability"]:
        return {f"loss/training/{name}": np.sum(y**2, axis=-1)}
    hinge = np.sum(np.where(y < 0, -y, ELU_ALPHA * np.expm1(-np.abs(y))), axis=-1)
    return {f"loss/training/{name}": hinge, f"loss/validation/{name}": hinge}


@click.command()
@click.argument("dump", type=click.Path(exists=True, path_type=Path))
@click.argument("problem", type=click.Path(exists=True, path_type=Path))
def main(dump: Path, problem: Path) -> None:
    """Print how far the losses of a DUMP on a PROBLEM are from float64."""
    for key, value in compute_deviations(read_dump(dump), load_problem(problem)).items():
        click.echo(f"{key:32} {value:.2e}")


if __name__ == "__main__":
    main()
