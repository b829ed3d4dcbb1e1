"""The peer's own observable layers on real tables, without network and chi2: what its step costs at least.

    KERAS_BACKEND=tensorflow PEER/bin/python -m benchmarks.peer.layers_side PACK [PACK ...] --replicas 100

Prints one JSON line. PACK: HDF5 files in the layout of tfperf/workloads/pdf/data/pack.py. Runs in the peer's
environment, from the repository's root.

Each table is cut to the x nodes and channels where it has entries, which is how the peer holds real tables. From there
on everything is the peer's: observable_generator makes the DIS and DY layers with their operations and the masks of an
experiment; ModelTrainer's own method joins the experiments' grids and splits the PDF among them. A pass is training
forward and backward (gradient with respect to the PDF at all nodes) and validation forward, as two compiled functions;
the losses that stand in for chi2 are sums of squares. Graph mode, as the peer trains on CPU.
"""

import argparse
import contextlib
import json
import os
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np

from benchmarks.peer.problem import TRAINING_SHARE
from tfperf.arrays import BoolMask, Float32Array, Float64Array, Int64Array
from tfperf.workloads.pdf.data.pack import OPERATIONS, list_sets

NFL = 14
Record = dict[str, Any]


def trim_table(
    entries: Float64Array, channels: Int64Array, x: Float64Array
) -> tuple[Float64Array, Float64Array, list[int]]:
    """Entries (N, C, X) or (N, C, X, X), grid and channel indices, cut to nodes and channels with entries, sorted."""
    order = np.argsort(channels)
    order = order[np.any(entries[:, order] != 0, axis=(0, *range(2, entries.ndim)))]
    used = np.zeros(len(x), bool)
    for axis in range(2, entries.ndim):
        used |= np.any(entries != 0, axis=tuple(a for a in range(entries.ndim) if a != axis))
    for axis in range(2, entries.ndim):
        entries = np.compress(used, entries, axis)
    return entries[:, order], x[used], channels[order].tolist()


def read_set(group: h5py.Group, x: Float64Array, name: str) -> Any:
    """One set of a pack as the peer's FittableDataSet."""
    from validphys.n3fit_data_utils import FittableDataSet

    from benchmarks.peer.n3fit_data import make_table

    operation = group.attrs["operation"]
    hadronic = "channels" in group
    channels = group["channels"][:] @ [NFL, 1] if hadronic else group["flav"][:]
    tables = []
    for key in OPERATIONS[operation]:
        entries = group[key][:]
        cut, nodes, basis = trim_table(entries if hadronic else np.swapaxes(entries, 1, 2), channels, x)
        tables.append(make_table(cut, hadronic, nodes, basis))
    return FittableDataSet(name, tables, operation)


def read_packs(paths: Sequence[Path], leave_out: Sequence[str]) -> dict[str, list[Any]]:
    """Experiment -> its sets; a set without an experiment belongs to the one that its name begins with."""
    found: dict[str, list[Any]] = {}
    for path in paths:
        with h5py.File(path) as file:
            x = file["x"][:]
            for name in list_sets(file):
                if name not in leave_out:
                    experiment = file[name].attrs.get("experiment") or name.split("_")[0]
                    found.setdefault(experiment, []).append(read_set(file[name], x, name))
    return found


def build_models(experiments: dict[str, list[Any]], replicas: int) -> tuple[Any, Any, Any, Sequence[Any]]:
    """Training and validation models, the grid that both take the PDF on, and the observable layers."""
    from n3fit.backends import Input, MetaModel
    from n3fit.model_gen import observable_generator
    from n3fit.model_trainer import ModelTrainer

    rng = np.random.default_rng(1)
    parts = []
    for name, sets in experiments.items():
        masks = np.stack([_sample_mask(rng, sets) for _ in range(replicas)])
        spec = {"name": name, "datasets": sets, "positivity": False, "invcovmat_true": None, "covmat": None}
        spec["expdata_true"] = None
        parts.append(observable_generator(spec, training_mask_array=masks, n_replicas=replicas))
    holder = SimpleNamespace(input_list=[p["inputs"] for p in parts], _scaler=None, replicas=range(replicas))
    grid = ModelTrainer._xgrid_generation(holder)
    x = grid.input.tensor_content.numpy()[0, :, 0]
    pdf = Input(shape=(replicas, len(x), NFL), batch_size=1, name="pdf")
    unique = grid.split(pdf)
    pieces = [unique[i] for i in grid.idx]

    def build_model(key: str) -> Any:
        wrappers = [part[key] for part in parts]
        outputs = [w._generate_experimental_layer(own) for w, own in zip(wrappers, pieces, strict=True)]
        return MetaModel({"pdf": pdf}, outputs)

    layers = [layer for part in parts for layer in part["output_tr"].observables]
    return build_model("output_tr"), build_model("output_vl"), x, layers


def build_pass(training: Any, validation: Any) -> Callable[[Any], None]:
    """One pass for a PDF (1, R, X, 14): training with gradient, then validation; ends when both are on the host."""
    import tensorflow as tf

    def compute_loss(predictions: Any) -> Any:
        return tf.add_n([tf.reduce_sum(y * y, axis=(0, 2)) for y in predictions])

    def step(pdf: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(pdf)
            losses = compute_loss(training({"pdf": pdf}))
        return losses, tape.gradient(losses, pdf)

    def check(pdf: Any) -> Any:
        return compute_loss(validation({"pdf": pdf}))

    train, validate = tf.function(step), tf.function(check)

    def take_pass(pdf: Any) -> None:
        for result in (*train(pdf), validate(pdf)):
            tf.reshape(result, -1)[0].numpy()

    return take_pass


def sample_pdf(x: Float64Array, replicas: int) -> Float32Array:
    """Random positive functions of x: (1, R, X, 14)."""
    rng = np.random.default_rng(2)
    small, large, slope = (rng.uniform(*r, (replicas, 1, NFL)) for r in ((0.0, 0.8), (2.0, 5.0), (0.0, 3.0)))
    node = x[None, :, None].astype(np.float64)
    return np.asarray((node**small * (1 - node) ** large * (1 + slope * np.sqrt(node)))[None], np.float32)


def measure_passes(options: argparse.Namespace) -> Record:
    """Build the layers and time the passes."""
    from n3fit.backends import set_initial_state

    set_initial_state(debug=False, max_cores=None, double_precision=False)  # before anything uses TensorFlow
    import tensorflow as tf

    from benchmarks.peer.n3fit_watch import compute_percentiles
    from tfperf.measure.environment import measure_peak_rss_bytes

    experiments = read_packs(options.packs, options.leave_out)
    training, validation, x, layers = build_models(experiments, options.replicas)
    take_pass, pdf = build_pass(training, validation), tf.constant(sample_pdf(x, options.replicas))
    start = time.perf_counter()
    take_pass(pdf)
    first = time.perf_counter() - start
    seconds: list[float] = []
    cpu = time.process_time()
    while len(seconds) < options.passes and sum(seconds) < options.max_seconds:
        start = time.perf_counter()
        take_pass(pdf)
        seconds.append(time.perf_counter() - start)
    return {
        "ms_pass": compute_percentiles(seconds),
        "cpu_ms_pass": round((time.process_time() - cpu) / len(seconds) * 1e3, 2),
        "passes": len(seconds),
        "first_pass_s": round(first, 3),
        "peak_rss_mb": round(measure_peak_rss_bytes() / 2**20, 1),
        **_make_description(experiments, layers, x),
    }


def main() -> None:
    """Measure and print the record; the peer's own output is dropped."""
    parser = argparse.ArgumentParser(description="time the peer's observable layers on real tables")
    parser.add_argument("packs", type=Path, nargs="+", help="HDF5 packs")
    parser.add_argument("--leave-out", action="append", default=[], metavar="SET", help="a set not to take; repeatable")
    parser.add_argument("--replicas", type=int, default=100)
    parser.add_argument("--passes", type=int, default=30, help="passes to time after the first one")
    parser.add_argument("--max-seconds", type=float, default=120, help="time for them at most")
    options = parser.parse_args()
    with open(os.devnull, "w") as sink, contextlib.redirect_stdout(sink):
        record = measure_passes(options)
    versions = {name: version(name) for name in ("nnpdf", "tensorflow", "keras", "numpy")}
    print(json.dumps({"replicas": options.replicas, **record, "versions": versions}), flush=True)


def _sample_mask(rng: np.random.Generator, sets: Sequence[Any]) -> BoolMask:
    """Training points of one replica: three quarters of each set, rounded down, one for sets of one point."""
    masks = [rng.permutation(s.ndata) < max(1, int(TRAINING_SHARE * s.ndata)) for s in sets]
    return np.concatenate(masks)


def _make_description(experiments: dict[str, list[Any]], layers: Sequence[Any], x: Float64Array) -> Record:
    """What was computed: sizes, and which of the peer's code paths the layers took."""
    paths = [f"{layer.compute_observable.__name__}{' of a split PDF' if layer.splitting else ''}" for layer in layers]
    tables = [t for layer in layers for t in layer.padded_fk_tables]
    entries = sum(int(np.prod(part.shape)) for t in tables for part in (t if isinstance(t, tuple) else (t,)))
    return {
        "points": sum(s.ndata for sets in experiments.values() for s in sets),
        "sets": len(layers),
        "pdf_nodes": len(x),
        "padded_tables_mb": round(entries * 4 / 2**20, 1),
        "paths": {path: paths.count(path) for path in sorted(set(paths))},
    }


if __name__ == "__main__":
    main()
