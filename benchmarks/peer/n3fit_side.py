"""The peer's side of the comparison: n3fit's own ModelTrainer, unmodified, on a problem of problem.py.

    KERAS_BACKEND=tensorflow PEER/bin/python -m benchmarks.peer.n3fit_side --problem FILE --replicas 10 --steps 200

Prints one JSON line. Runs in the peer's environment, from the repository's root.

Real: ModelTrainer, observable_generator, DIS, DY, Mask, LossInvcovmat, ..., generate_pdf_model, MetaModel.perform_fit,
Stopping, StoppingCallback, LagrangeCallback, set_initial_state, FittableDataSet, FKTableData. Fake: where the tables
come from (n3fit_data.DenseTable) and the dictionaries of data, which have the same keys (n3fit_data.py).
"""

import argparse
import contextlib
import json
import os
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

Record = dict[str, Any]
FIRST_SEED = 1000
# name -> ranges of the exponents alpha and beta
FLAVOURS = {
    "sng": ([1.089, 1.119], [1.475, 3.119]),
    "g": ([0.7504, 1.098], [2.814, 5.669]),
    "v": ([0.479, 0.7384], [1.549, 3.532]),
    "v3": ([0.1073, 0.4397], [1.733, 3.458]),
    "v8": ([0.5507, 0.7837], [1.516, 3.356]),
    "t3": ([-0.4506, 0.9305], [1.745, 3.424]),
    "t8": ([0.5877, 0.8687], [1.522, 3.515]),
    "t15": ([1.089, 1.141], [1.492, 3.222]),
}
# hyperparameters of the peer's own runcard of NNPDF4.0
PARAMETERS = {
    "nodes_per_layer": [25, 20, 8],
    "activation_per_layer": ["tanh", "tanh", "linear"],
    "initializer": "glorot_normal",
    "optimizer": {"clipnorm": 6.073e-6, "learning_rate": 2.621e-3, "optimizer_name": "Nadam"},
    "positivity": {"initial": 184.8, "multiplier": None},
    "integrability": {"initial": 10.0, "multiplier": None},
    "stopping_patience": 0.1,
    "layer_type": "dense",
    "dropout": 0.0,
}


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="time the peer's fit on a synthetic problem")
    parser.add_argument("--problem", type=Path, required=True, help="file of problem.py")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--steps", type=int, default=200, help="stop after this many steps")
    parser.add_argument("--max-seconds", type=float, default=180, help="or after so many after the first step")
    parser.add_argument("--warmup", type=int, default=5, help="steps that are not counted")
    parser.add_argument("--epochs", type=int, default=17000, help="nominal length of the fit")
    parser.add_argument("--basis", choices=["exp", "diag"], default="exp", help="diag: one group, the peer's default")
    parser.add_argument("--threshold", type=float, default=3.5, help="validation chi2 from which best weights are kept")
    parser.add_argument("--double", action="store_true", help="float64; the peer's default is float32")
    parser.add_argument("--dump", type=Path, help="npz with the initial state (n3fit_dump.py); times are void then")
    return parser.parse_args()


def run(options: argparse.Namespace) -> Record:
    """Set up the peer as its own program does, fit for some steps, return what was measured."""
    start = time.perf_counter()
    from n3fit.backends import set_initial_state

    set_initial_state(debug=False, max_cores=None, double_precision=options.double)  # before anything uses TensorFlow
    from n3fit.model_trainer import ModelTrainer

    from benchmarks.peer import n3fit_data, n3fit_dump, n3fit_watch
    from benchmarks.peer.problem import load_problem

    class ModelKeepingTrainer(ModelTrainer):
        """Keeps hold of the validation model, which the peer does not hand out."""

        def _model_generation(self, *args: Any) -> Any:
            self.models = super()._model_generation(*args)
            return self.models

    imported = time.perf_counter()
    problem = load_problem(options.problem)
    info = n3fit_data.make_experiments(problem, options.replicas, options.basis)
    positivity, integrability = (n3fit_data.make_penalties(problem, kind) for kind in (False, True))
    read = time.perf_counter()
    validations = n3fit_watch.measure_validations()
    seeds = [FIRST_SEED + r for r in range(options.replicas)]
    trainer = ModelKeepingTrainer(
        [], info, positivity, integrability, _make_flavour_info(), "EVOL", seeds, None,
        debug=False, sum_rules=True, replicas=tuple(range(1, options.replicas + 1)),
    )  # fmt: skip
    state: dict[str, Any] = {}

    def note_start(model: Any) -> None:
        watch.record["build_s"] = round(time.perf_counter() - read, 3)
        if options.dump:
            state.update(n3fit_dump.compute_initial_state(model, trainer.models["validation"], options.replicas))

    watch = n3fit_watch.Watch(options.steps, options.warmup, options.max_seconds, note_start)
    trainer.callbacks.append(watch)
    trainer.hyperparametrizable({**PARAMETERS, "epochs": options.epochs, "threshold_chi2": options.threshold})
    if options.dump:
        n3fit_dump.save(options.dump, state, _make_meta(options, seeds), watch.loss)
    return {
        **watch.record,
        "import_s": round(imported - start, 3),
        "data_s": round(read - imported, 3),
        "first_validation_s": round(validations[0], 3),
        "ms_validation": n3fit_watch.compute_percentiles(validations[options.warmup :]),
    }


def main() -> None:
    """Run and print the record; the peer's own output is dropped."""
    options = parse()
    load = [os.getloadavg()[0]]
    with open(os.devnull, "w") as sink, contextlib.redirect_stdout(sink):
        record = run(options)
    given = {k: str(v) if isinstance(v, Path) else v for k, v in vars(options).items()}
    versions = {name: version(name) for name in ("nnpdf", "tensorflow", "keras", "numpy")}
    load.append(os.getloadavg()[0])
    print(json.dumps({**given, **record, "load": load, "versions": versions}), flush=True)


def _make_flavour_info() -> list[Record]:
    return [{"fl": name, "trainable": False, "smallx": a, "largex": b} for name, (a, b) in FLAVOURS.items()]


def _make_meta(options: argparse.Namespace, seeds: list[int]) -> Record:
    return {
        "basis": options.basis,
        "precision": "float64" if options.double else "float32",
        "seeds": seeds,
        "activations": PARAMETERS["activation_per_layer"],
        "flavours": list(FLAVOURS),
    }


if __name__ == "__main__":
    main()
