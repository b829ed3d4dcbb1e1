"""Slow float64 truths, one replica at a time, written from the formulas alone."""

import numpy as np

PRIOR = {"momentum": 1.0, "v": 3.0, "v3": 1.0, "v8": 3.0}


def covariance(datasets, t0=None):
    """C point by point from stat, sys and the names of the systematics."""
    points = [(d, i, None if t0 is None else t0[k][i]) for k, d in enumerate(datasets) for i in range(len(d.cv))]
    out = np.zeros((len(points), len(points)))

    def error(d, i, j, value):
        return d.sys[i, j] * (value / d.cv[i] if value is not None and d.sys_is_mult[j] else 1.0)

    for a, (da, ia, ta) in enumerate(points):
        for b, (db, ib, tb) in enumerate(points):
            if a == b:
                out[a, b] += da.stat[ia] ** 2
            for ja, name_a in enumerate(da.sys_names):
                for jb, name_b in enumerate(db.sys_names):
                    same_set = da.name == db.name
                    if name_a.endswith("UNCORR"):
                        counts = a == b and ja == jb
                    elif name_a.endswith("CORR"):
                        counts = same_set and ja == jb
                    else:
                        counts = name_a == name_b
                    if counts:
                        out[a, b] += error(da, ia, ja, ta) * error(db, ib, jb, tb)
    return out


def chi2(residual, cov, mask):
    """r^T C^-1 r over the masked points."""
    r, c = residual[mask], cov[np.ix_(mask, mask)]
    return float(r @ np.linalg.solve(c, r))


def dense_loop(x, kernel, bias):
    """One dense layer after another: x (R, I, X), kernel (R, I, O), bias (R, O, 1) -> (R, O, X)."""
    out = np.zeros((len(kernel), kernel.shape[2], x.shape[-1]))
    for r in range(len(kernel)):
        for o in range(kernel.shape[2]):
            for n in range(x.shape[-1]):
                out[r, o, n] = sum(kernel[r, i, o] * x[r, i, n] for i in range(kernel.shape[1])) + bias[r, o, 0]
    return out


def network(x, weights, r):
    """Raw outputs (8, X) of replica r's network tanh-tanh-linear at x (X)."""
    y = np.stack([x, np.log(x)]).astype(np.float64)
    for layer in range(3):
        kernel, bias = weights[f"dense_{layer}/kernel"][r], weights[f"dense_{layer}/bias"][r]
        y = kernel.T.astype(np.float64) @ y + bias
        y = np.tanh(y) if layer < 2 else y
    return y


def preprocessed(x, weights, r):
    """Network times x^(1-alpha) (1-x)^beta, before the sum rules: (8, X)."""
    alpha, beta = weights["preprocessing/alpha"][r], weights["preprocessing/beta"][r]
    return network(x, weights, r) * x ** (1 - alpha) * (1 - x) ** beta


def dense(table):
    """A deep-inelastic table over the fitted flavours, (rows, 8, X)."""
    same = {"v15": "v", "v24": "v", "v35": "v", "t24": "sigma", "t35": "sigma"}
    values, names = table.read_values(), ("sigma", "g", "v", "v3", "v8", "t3", "t8", "t15")
    out = np.zeros((len(values), 8, values.shape[1]))
    for k, (f,) in enumerate(table.channels):
        out[:, names.index(same.get(f, f))] += values[:, :, k]
    return out


def predictions(datasets, pdf, flavours):
    """y (N) for one PDF given as a function of flavour name -> x f (X), table by table, point by point."""
    out = []
    for d in datasets:
        tables = []
        for table, axes in ((t.read_values(), t.channels) for t in d.tables):
            values = [
                sum(table[n, i, k] * pdf[f][i] for i in range(table.shape[1]) for k, (f,) in enumerate(axes))
                for n in range(len(table))
            ]
            tables.append(np.array(values) if len(values) == len(d.cv) else np.full(len(d.cv), values[0]))
        t = tables
        out.append(
            {
                "NULL": lambda t: t[0],
                "RATIO": lambda t: t[0] / t[1],
                "ASY": lambda t: (t[0] - t[1]) / (t[0] + t[1]),
                "ADD": lambda t: t[0] + t[1],
                "SMN": lambda t: (t[0] + t[1]) / (t[2] + t[3]),
                "COM": lambda t: sum(t[:10]) / sum(t[10:]),
            }[d.operation](t)
        )
    return np.concatenate(out)
