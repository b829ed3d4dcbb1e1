"""What a fit of any Keras model costs beside Keras' own."""

import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from statistics import median

from benchmarks.registry import Row, make_ratio_columns, register_benchmark
from tfperf.sources.code import CodeReference, call_function

OWN = "benchmarks.keras_models"
ZOO = ("tabular", "digits", "text")
PARTS = {
    "mlp": (f"{OWN}:build_mlp", f"{OWN}:load_table"), "resnet": (f"{OWN}:build_resnet", f"{OWN}:load_images"),
    **{name: (f"tfperf.zoo.{name}:build_model", f"tfperf.zoo.{name}:load_samples") for name in ZOO},
}  # fmt: skip
BATCH, VALIDATION, ROUNDS, SECONDS = 32, 0.2, 9, 0.5
STEPS_PER_EXECUTION = (1, 16, 128)
DEFAULT = "1 step, graph"
MOST_EPOCHS = 1_000_000  # more than are taken
Train = Callable[[], float]  # some epochs; seconds of one


@register_benchmark(
    "keras",
    claim="a fit of any Keras model costs no more than Keras' own in its best setting",
    sweep=f"{', '.join(PARTS)}; Keras with steps_per_execution {', '.join(map(str, STEPS_PER_EXECUTION))}, jit on and "
    f"off, {ROUNDS} rounds in turn",
    unit=f"an epoch of batches of {BATCH} with metrics and validation, ms, median; ratio: tfperf's over Keras' best "
    "and over its default, geometric mean of the rounds with its 95 % interval",
)
def measure_keras(only: str = "", rounds: int = ROUNDS) -> Iterator[Row]:
    """Each part by tfperf and by Keras' `fit`."""
    for name in only.split(",") if only else PARTS:
        trainers = {"tfperf": _prepare_tfperf(*PARTS[name])}
        for steps, jit in product(STEPS_PER_EXECUTION, (False, True)):
            try:
                trainers[f"{steps} step{'s' * (steps > 1)}, {'jit' if jit else 'graph'}"] = _prepare_keras(
                    *PARTS[name], steps, jit
                )
            except Exception:  # XLA cannot compile every model
                if not jit:
                    raise
        times: dict[str, list[float]] = {key: [] for key in trainers}
        for _ in range(rounds):
            for key, train in trainers.items():
                times[key].append(train())
        best = min((key for key in times if key != "tfperf"), key=lambda key: median(times[key]))
        row: Row = {"part": name, "tfperf_ms": 1e3 * median(times["tfperf"]), "best_keras": best}
        row |= {"best_ms": 1e3 * median(times[best]), "default_ms": 1e3 * median(times[DEFAULT])}
        row |= make_ratio_columns("ratio", times["tfperf"], times[best])
        yield row | make_ratio_columns("ratio_default", times["tfperf"], times[DEFAULT])


def _prepare_tfperf(model: str, data: str) -> Train:
    from tfperf.runcard.data_sources import DataSource, ModelSource
    from tfperf.workloads.keras.card import EpochSchedule, KerasCard
    from tfperf.workloads.keras.inputs import read_data
    from tfperf.workloads.keras.models import make_model
    from tfperf.workloads.keras.training import KerasTraining

    card = KerasCard(
        workload="keras", model=ModelSource(build=model), train=EpochSchedule(epochs=MOST_EPOCHS),
        data=DataSource(build=data, batch=BATCH, validation=VALIDATION),
    )  # fmt: skip
    samples = read_data(card)
    training = KerasTraining(card, make_model(card), samples, Path("callbacks"))
    training.choose()
    steps = training.feed.steps_per_epoch or 0

    def train(epochs: int) -> None:
        training.call(epochs * steps)

    return time_epochs(train)


def _prepare_keras(model: str, data: str, steps: int, jit: bool) -> Train:
    network = call_function(CodeReference.parse(model), {}, "model")
    network.compile(**{**network._compile_config.config, "jit_compile": jit, "steps_per_execution": steps})
    x, y = call_function(CodeReference.parse(data), {}, "data")
    count = len(x) - round(VALIDATION * len(x))

    def train(epochs: int) -> None:
        held = (x[count:], y[count:])
        network.fit(x[:count], y[:count], batch_size=BATCH, epochs=epochs, validation_data=held, verbose=0)

    return time_epochs(train)


def time_epochs(train: Callable[[int], None]) -> Train:
    """Compiled by a first epoch; as many at a time as take some time."""
    train(1)
    start = time.perf_counter()
    train(1)
    epochs = max(1, round(SECONDS / (time.perf_counter() - start)))

    def measure() -> float:
        begin = time.perf_counter()
        train(epochs)
        return (time.perf_counter() - begin) / epochs

    return measure
