"""A made-up fit result of any size: smooth PDFs, plausible data, some replicas that failed."""

import numpy as np

from tfperf.workloads.pdf.results.record import EVOLUTION, DatasetResult, FitResult, ReplicaHistory, Replicas

# x f = a x^b (1-x)^c of the toy proton in the evolution basis, roughly those of the Les Houches benchmark
SHAPES = {
    "sigma": (1.3, -0.12, 3.5), "g": (1.9, -0.1, 5.0), "v": (6.0, 0.75, 3.2), "v3": (2.5, 0.8, 3.0),
    "v8": (6.0, 0.75, 3.2), "t3": (2.2, 0.7, 3.0), "t8": (3.0, 0.35, 3.4), "t15": (1.2, -0.1, 3.5),
}  # fmt: skip


def make_grid(nodes: int = 50):
    """Nodes from 2e-7 to 1, logarithmic below 0.1 and linear above."""
    low = nodes * 3 // 5
    return np.concatenate([np.geomspace(2e-7, 0.1, low, endpoint=False), np.linspace(0.1, 1.0, nodes - low)])


def make_pdf(rng, replicas, x):
    pdf = np.empty((replicas, len(EVOLUTION), len(x)))
    for f, name in enumerate(EVOLUTION):
        a, b, c = SHAPES[name]
        scale = 1 + 0.03 * rng.normal(size=(replicas, 1))
        power = b + 0.03 * rng.normal(size=(replicas, 1))
        tilt = c + 0.2 * rng.normal(size=(replicas, 1))
        pdf[:, f] = a * scale * x**power * (1 - x) ** tilt
    return pdf


def make_kin(rng, points):
    """x, Q2 [GeV2], y in bins of Q2."""
    q2 = np.repeat(np.geomspace(4.0, 2e4, -(-points // 8)), 8)[:points]
    x = np.sort(rng.uniform(np.log(1e-4), np.log(0.8), size=points))
    return np.column_stack([np.exp(rng.permutation(x)), q2, rng.uniform(0, 0.9, points)])


def make_dataset(rng, number, replicas, points):
    kin = make_kin(rng, points)
    truth = 0.4 * kin[:, 0] ** -0.15 * (1 - kin[:, 0]) ** 3 * (1 + 0.02 * np.log(kin[:, 1])) + 1e-3
    sigma = truth * rng.uniform(0.01, 0.06, points)
    predictions = truth * (1 + 0.01 * rng.normal(size=(replicas, 1))) + 0.2 * sigma * rng.normal(
        size=(replicas, points)
    )
    mean = predictions.sum(axis=0) / max(replicas, 1)
    cv = truth + sigma * rng.normal(size=points)
    chi2 = float(np.sum(((cv - mean) / sigma) ** 2) / max(points, 1))
    return DatasetResult(
        name=f"HERA_NC_{number:03d}GEV_EP-SIGMARED", experiment=("HERA", "BCDMS", "NMC")[number % 3],
        label=f"HERA I+II inclusive NC $e^+p$ {number} GeV", kin_columns=("x", "Q2", "y"), kin=kin, cv=cv, sigma=sigma,
        predictions=predictions, mean=mean, chi2=chi2, chi2_no_t0=0.98 * chi2,
    )  # fmt: skip


def make_history(rng, rows, stop_step):
    replicas = len(stop_step)
    step = np.unique(np.linspace(1, stop_step.max(initial=1), rows).astype(np.int64))
    fall = 1.2 + 30 * np.exp(-12 * step[:, None] / step[-1]) + 3 * np.exp(-3 * step[:, None] / step[-1])
    loss = fall * (1 + 0.05 * rng.normal(size=(1, replicas))) + 0.02 * rng.normal(size=(len(step), replicas))
    loss[step[:, None] > stop_step] = np.nan
    positivity = np.maximum(loss - 1.5, 0) * 1e-4
    return ReplicaHistory(
        step=step, training=loss, validation=loss + 0.2, experimental=loss - 0.1, positivity=positivity
    )


def make_replicas(rng, count, failed, steps):
    status = ["max_steps" if r % 4 == 3 else "stopped" for r in range(count)]
    for r in range(failed):
        status[1 + 2 * r] = ("quarantined", "no_positivity")[r % 2]
    stop = np.where(np.array(status) == "max_steps", steps, rng.integers(steps // 2, steps, count))
    chi2 = 1.2 + 0.05 * rng.normal(size=count)
    return Replicas(
        id=np.arange(1, count + 1), seed=np.full(count, 7), attempt=np.zeros(count, np.int64), status=tuple(status),
        best_step=np.where(np.array(status) == "no_positivity", -1, stop - steps // 10), stop_step=stop,
        chi2_training=chi2 + 0.9, chi2_validation=chi2 + 1.1 + 0.05 * rng.normal(size=count), chi2_experimental=chi2,
        positivity=np.where(np.array(status) == "no_positivity", 3e-4, 0.0),
        arc_length=1 + rng.uniform(size=(count, len(EVOLUTION))),
        integrability=np.random.default_rng(5).uniform(0, 0.4, size=(count, 5)),
    )  # fmt: skip


def make_summary(result, converged):
    points = sum(len(d.cv) for d in result.datasets)
    blocks = sum(d.chi2 * len(d.cv) for d in result.datasets) / points if points else None
    by_status = {s: result.replicas.status.count(s) for s in sorted(set(result.replicas.status))}
    return {
        "title": result.title,
        "chi2_per_point": blocks and blocks + 0.03, "chi2_no_t0_per_point": blocks and blocks + 0.01,
        "chi2_per_dataset": {
            d.name: {"ndata": len(d.cv), "chi2": d.chi2, "chi2_no_t0": d.chi2_no_t0} for d in result.datasets
        },
        "chi2_blocks_per_point": blocks, "points": points,
        "replicas": {
            "total": len(result.replicas.status), "converged": converged,
            "failed": len(result.replicas.status) - converged, "by_status": by_status,
        },
        "steps": 10000, "resumed_from_steps": [4000],
        "seconds": {
            "import": 6.1, "data": 1.25, "build": 2.5, "compile": 9.75, "train": 61.0, "write": None, "total": 83.0,
        },
        "ms_per_step": {"median": 5.5, "q1": 5.25, "q3": 6.125}, "peak_rss_bytes": 1_500_000_000,
        "engine": {
            "xla": True, "steps_per_call": 200, "threads": 2, "precision": "float32", "form": "shared",
            "devices": ["CPU:0"], "tried": [{"xla": True, "ms": 5.5}, {"xla": False, "ms": 7.25}],
        },
        "pack": {"order": "NLO", "alphas_mz": 0.118, "mc": 1.51, "mb": 4.92},
        "versions": {"python": "3.11.7", "tensorflow": "2.21.0", "numpy": "2.4.6", "tfperf": "0.1.0"},
    }  # fmt: skip


def make_result(replicas=6, sets=2, points=12, rows=20, failed=1, seed=1, title="A made-up fit <b>& more</b>"):
    """R replicas, `failed` of them not converged (the first one quarantined, with nan everywhere), N points a set."""
    rng = np.random.default_rng(seed)
    x, steps = make_grid(), 10000
    record = make_replicas(rng, replicas, failed, steps)
    pdf = make_pdf(rng, replicas, x)
    datasets = [make_dataset(rng, i, replicas, points) for i in range(1, sets + 1)]
    lost = np.array(record.status) == "quarantined"
    pdf[lost] = np.nan
    for d in datasets:
        d.predictions[lost] = np.nan
    for chi2 in (record.chi2_training, record.chi2_validation, record.chi2_experimental):
        chi2[lost] = np.nan
    weights = {
        "dense/kernel": rng.normal(size=(replicas, 2, 25)), "dense/bias": rng.normal(size=(replicas, 25, 1)),
        "exponents/alpha": rng.normal(size=(replicas, 8)),
    }  # fmt: skip
    result = FitResult(
        title=title, q0=1.65, x=x, pdf=pdf, weights=weights, replicas=record, datasets=tuple(datasets),
        history=make_history(rng, rows, record.stop_step), summary={},
    )  # fmt: skip
    return FitResult(**{**vars(result), "summary": make_summary(result, int(result.converged.sum()))})
