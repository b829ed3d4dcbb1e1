"""What PDFs of a card's architecture look like before and after training, as samples."""

import numpy as np

from tfperf.arrays import Float64Array
from tfperf.workloads.pdf.card import FITTED, Model
from tfperf.workloads.pdf.model import PDF

# training makes kernels grow: factors on Glorot's width, and width of the biases at the upper end
GROWTH, BIASES = (0.7, 2.5), 0.5
OUTLIERS = 0.1  # share of the samples left out: those with a sum-rule integral next to zero


def sample_pdfs(options: Model, x: Float64Array, count: int, seed: int) -> Float64Array:
    """x f (n, 8, X) of networks with weights from narrow to wide and exponents from their ranges, at x (X) below 1."""
    rng = np.random.default_rng(seed)
    model = PDF(options, count, "float32")
    growth = rng.uniform(*GROWTH, (count, 1, 1))
    for layer in model.hidden:
        _, inputs, units = layer.kernel.shape
        width = growth * np.sqrt(2 / (inputs + units))
        layer.kernel.assign(width * rng.standard_normal(layer.kernel.shape))
        layer.bias.assign(BIASES * (growth - GROWTH[0]) / np.ptp(GROWTH) * rng.standard_normal(layer.bias.shape))
    for name, weight in zip(("alpha", "beta"), model.exponents, strict=True):
        low, high = np.array([getattr(options.exponents[f], name) for f in FITTED]).T
        weight.assign((low + (high - low) * rng.uniform(size=(count, len(FITTED))))[:, :, None])
    pdf = model(x).numpy().astype(np.float64)
    size = np.where(np.isfinite(pdf).all(axis=(1, 2)), (pdf**2).mean(axis=(1, 2)), np.inf)
    selected: Float64Array = pdf[np.argsort(size)[: round(count * (1 - OUTLIERS))]]
    return selected
