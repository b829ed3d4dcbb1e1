"""Everything that is needed to compute the peer's losses again without it. Runs in the peer's environment.

Keys of the file; R replicas, X = 50 nodes of the fit, Q = 2000 nodes of the sum rules, 8 flavours of the fitting basis:

    meta                     JSON: size, basis, precision, seeds, activations, flavours (names of the 8)
    kernel<i>, bias<i>       (R, in, out), (R, out) of dense layer i; the input is (x, log x), unscaled
    alphas, betas            (R, 8): the network's output is multiplied by x^(1 - alpha) (1 - x)^beta
    rotation                 (8, 14) to the FK basis
    x_fit                    (X) as the peer holds it
    x_integration, weights_integration  (Q) nodes and weights of the sum rules
    pdf                      (R, X, 14) x f(x) at x_fit, normalised
    loss/training/<name>, loss/validation/<name>  (R) of each experiment and penalty; `total` is their sum
    lambda/<name>            initial multiplier of each penalty
    loss_per_step            training loss before each update, summed over replicas
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from n3fit.layers import xIntegrator

from tfperf.arrays import AnyArray

Arrays = dict[str, Any]
FITTING_MODEL, NETWORKS, PREFACTOR = "PDFs", "all_NNs", "preprocessing_factor"


def compute_initial_state(training: Any, validation: Any, replicas: int) -> Arrays:
    """The state before the first step; tracing the losses for it takes time, so no timing holds after this."""
    pdf = training.get_layer(FITTING_MODEL)
    fit, integration = (np.asarray(training.x_in[name])[:1] for name in ("pdf_input", "xgrid_integration"))
    values = pdf({"pdf_input": fit, "xgrid_integration": integration})
    return {
        **_stack_weights(pdf, replicas),
        "rotation": _get_rotation(pdf, "pdf_evolution_basis") @ _get_rotation(pdf, "pdf_FK_basis"),
        "x_fit": fit[0, :, 0],
        "x_integration": integration[0, :, 0],
        "weights_integration": _get_integration_weights(pdf),
        "pdf": np.asarray(values)[0],
        **_evaluate_losses(training, "training", ""),
        **_evaluate_losses(validation, "validation", "_val"),
        **_get_multipliers(training),
    }


def save(path: Path, state: Arrays, meta: dict[str, Any], loss_per_step: list[float]) -> None:
    """Write the state to `path`."""
    with path.open("wb") as file:
        np.savez(file, **state, meta=np.array(json.dumps(meta)), loss_per_step=np.array(loss_per_step))


def _stack_weights(pdf: Any, replicas: int) -> Arrays:
    networks = [pdf.get_layer(NETWORKS).get_layer(f"NN_{r}").weights for r in range(replicas)]
    stacked = [np.stack([w.numpy() for w in layer]) for layer in zip(*networks, strict=True)]
    prefactor = pdf.get_layer(PREFACTOR)
    return {
        **{f"{'bias' if i % 2 else 'kernel'}{i // 2}": w for i, w in enumerate(stacked)},
        "alphas": np.stack([w.numpy()[:, 0] for w in prefactor.alphas], -1),
        "betas": np.stack([w.numpy()[:, 0] for w in prefactor.betas], -1),
    }


def _get_rotation(pdf: Any, name: str) -> AnyArray:
    return np.asarray(pdf.get_layer(name).rotation_matrix)


def _get_integration_weights(pdf: Any) -> AnyArray:
    (integrator,) = (layer for layer in pdf.get_layer("impose_msr").layers if isinstance(layer, xIntegrator))
    return np.asarray(integrator.grid_weights)


def _evaluate_losses(model: Any, split: str, suffix: str) -> Arrays:
    """The peer calls an output after its layer, and adds `_val` for experiments of the validation model."""
    named = {key.removesuffix("_loss").removesuffix(suffix): value for key, value in model.compute_losses().items()}
    return {f"loss/{split}/{'total' if name == 'loss' else name}": np.asarray(v) for name, v in named.items()}


def _get_multipliers(training: Any) -> Arrays:
    layers = [layer for layer in training.layers if hasattr(layer, "apply_multiplier")]
    return {f"lambda/{layer.name}": layer.kernel.numpy() for layer in layers}
