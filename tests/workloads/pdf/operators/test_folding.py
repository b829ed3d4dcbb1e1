import numpy as np
import pytest

from tfperf.workloads.pdf.operators.folding import fold_points
from tfperf.workloads.pdf.operators.woodbury import Block, Whitening


def problem(seed, points, blocks, share):
    """Random blocks of systematics on `points`, linear with probability `share`."""
    rng = np.random.default_rng(seed)
    edges = np.sort(rng.choice(np.arange(1, points), 2 * blocks, replace=False))
    found = tuple(
        Block(slice(int(a), int(b)), rng.normal(size=(b - a, int(rng.integers(1, 7))))) for a, b in edges.reshape(-1, 2)
    )
    return Whitening(np.ones(points), found), rng.random(points) < share, rng


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_folded_and_rest_add_up_to_chi2(seed, share):
    white, linear, rng = problem(seed, 40, 3, share)
    replicas, k = 3, 5
    operator, data = rng.normal(size=(linear.sum(), k)), 3 + rng.normal(size=(replicas, 40))
    training = rng.random((replicas, 40)) < 0.7
    folded = fold_points(white, linear, operator, data[:, linear], training)
    p, other = rng.normal(size=(replicas, k)), rng.normal(size=(replicas, (~linear).sum()))
    residual = np.empty((replicas, 40))
    residual[:, linear] = p @ operator.T - data[:, linear]
    residual[:, ~linear] = other
    for half, mask in enumerate((training, ~training)):
        m = mask.astype(float)
        e = other * m[:, ~linear]
        t = [e[:, folded.rest.blocks[b].rows] @ folded.rest.blocks[b].u for b in folded.coupled]
        w = np.concatenate([p, *t], axis=1)
        rows = slice(half * replicas, (half + 1) * replicas)
        d = w - folded.centres[rows]
        pull = np.einsum("rij,rj->ri", folded.curvatures[rows], d) + 2 * folded.slopes[rows]
        got = folded.rest.compute_chi2(other, m[:, ~linear]) + (d * pull).sum(axis=1) + folded.constants[rows]
        np.testing.assert_allclose(got, white.compute_chi2(residual, m), rtol=1e-9)
