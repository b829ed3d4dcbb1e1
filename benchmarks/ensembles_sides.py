"""Who trains an ensemble in the benchmark `ensembles`: tfperf, Keras' `fit`, and a program on Keras' JAX backend."""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import keras
import tensorflow as tf

from benchmarks.ensembles_models import BATCH, PARTS, build_compiled, load_samples
from benchmarks.keras_fit import MOST_EPOCHS, Train, time_epochs
from benchmarks.starting import HERE
from tfperf.console.stages import show_nothing
from tfperf.errors import UserError
from tfperf.measure.environment import count_cores
from tfperf.runcard.data_sources import DataSource, ModelSource
from tfperf.train.choices import Choices
from tfperf.train.choosing import choose
from tfperf.train.cores import Cores
from tfperf.train.ensemble import Ensemble
from tfperf.workloads.keras.card import EnsembleSettings, EpochSchedule, KerasCard, LoopEngine
from tfperf.workloads.keras.inputs import read_data
from tfperf.workloads.keras.replicas.data import make_replica_data
from tfperf.workloads.keras.replicas.factory import KerasFactory
from tfperf.workloads.keras.replicas.forms import WHOLE, list_forms
from tfperf.workloads.keras.replicas.members import Members
from tfperf.workloads.keras.replicas.training import make_settings

MODELS = "benchmarks.ensembles_models"
JAX_SIDE = "benchmarks.ensembles_jax"
HOW = "python -m venv DIR && DIR/bin/pip install keras jax, then --jax DIR/bin/python"
TAIL = 1  # lines of what a failed program says, the last of which names the error
UNCOMPILABLE = (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.InternalError)  # by XLA
Form = Literal["auto", "lanes", "stacked"]


@dataclass(frozen=True)
class EpochSize:
    """Samples of an epoch, and of a validation."""

    samples: int
    validated: int


@dataclass(frozen=True)
class TfperfSide:
    """A compiled ensemble, what was chosen for it, and the call that trains it."""

    choices: Choices
    train: Train

    def describe(self) -> str:
        """The form, in words."""
        found = self.choices
        whole = "" if found.products == WHOLE else f" in {found.cpu_stacks} {found.products}"
        return f"{found.form}{whole}, {'XLA' if found.xla else 'graph'}"


class EnsembleRig:
    """The replicas of a part, from which ensembles of any form are made."""

    def __init__(self, part: str, size: EpochSize) -> None:
        share = size.validated / (size.samples + size.validated)
        self.card = KerasCard(
            workload="keras", replicas=tuple(range(1, PARTS[part].replicas + 1)),
            model=ModelSource(build=f"{MODELS}:build_compiled", arguments={"part": part}),
            data=DataSource(
                build=f"{MODELS}:load_samples", batch=BATCH, validation=share,
                arguments={"part": part, "samples": size.samples, "validated": size.validated},
            ),
            train=EpochSchedule(epochs=MOST_EPOCHS), ensemble=EnsembleSettings(patience=MOST_EPOCHS),
        )  # fmt: skip
        ids = self.card.replicas or ()
        members = Members(
            self.card, make_replica_data(self.card, read_data(self.card), show_nothing), ids, [0] * len(ids)
        )
        batches = members.draw_batches()
        self.factory: KerasFactory = members.build_factory(members.build_template(batches), batches, show_nothing)

    def prepare(self, form: Form = "auto", xla: bool | None = None) -> TfperfSide | None:
        """As `tfperf fit` would train them; None where the form cannot be had."""
        factory, cores = self.factory, Cores(count_cores())
        reasons = [one for one in (*factory.refusals, factory.find_difference()) if one]
        if form == "stacked" and reasons:
            return None
        engine = LoopEngine(form=form, xla="auto" if xla is None else xla)
        settings = make_settings(replace(self.card, engine=engine), factory.template.epoch)
        forms = list_forms(form, reasons, factory.replicas, cores.threads)
        ensemble = Ensemble(settings, factory, forms.make(forms.names[0], WHOLE), 1, cores.threads)
        try:
            choices = choose(ensemble, forms, cores)
        except UNCOMPILABLE:
            if xla is None:
                raise
            return None
        choices = replace(choices, cpu_stacks=len(ensemble.shards))
        return TfperfSide(choices, time_epochs(_make_training(ensemble, choices)))


def _make_training(ensemble: Ensemble, choices: Choices) -> Callable[[int], None]:
    """Calls of as many steps as were chosen, with the history that each of them leaves."""
    epoch = ensemble.epoch

    def train(epochs: int) -> None:
        end = ensemble.step + epochs * epoch
        while (step := ensemble.step) < end:
            ensemble.run(min(choices.steps_per_call, end - step), choices.xla)
            ensemble.take_rows(choices.losses_xla)

    return train


def prepare_fit(part: str, size: EpochSize, steps: int, jit: bool) -> Train:
    """One replica by Keras' `fit` with that many steps an execution; seconds of an epoch."""
    keras.utils.set_random_seed(1)
    model = build_compiled(part)
    model.compile(**{**model._compile_config.config, "jit_compile": jit, "steps_per_execution": steps})
    x, y = load_samples(part, size.samples, size.validated)
    held = x[size.samples :], y[size.samples :]

    def train(epochs: int) -> None:
        stopping = keras.callbacks.EarlyStopping(patience=MOST_EPOCHS, restore_best_weights=True)
        model.fit(
            x[: size.samples], y[: size.samples], batch_size=BATCH, epochs=epochs, validation_data=held, verbose=0,
            callbacks=[stopping],
        )  # fmt: skip

    return time_epochs(train)


class JaxSide:
    """The program on JAX, in a process that ends with the block; `train` is as of the other sides.

    Raises: UserError where the Python is not there, or has no JAX, or the program fails.
    """

    def __init__(self, python: Path, part: str, size: EpochSize) -> None:
        counts = (PARTS[part].replicas, size.samples, size.validated)
        self._command = [str(python), "-m", JAX_SIDE, part, *map(str, counts)]

    def __enter__(self) -> "JaxSide":
        self._errors = tempfile.TemporaryFile("w+")
        variables = {"PYTHONPATH": str(HERE), "KERAS_BACKEND": "jax"}
        try:
            self._process = subprocess.Popen(
                self._command, text=True, cwd=HERE, env={**os.environ, **variables}, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=self._errors,
            )  # fmt: skip
        except OSError as error:
            self._errors.close()
            raise UserError(f"--jax: got {self._command[0]}: {error.strerror}; make one: {HOW}") from None
        try:
            self.spread = str(self._read()["spread"])
            self.train: Train = time_epochs(self._ask)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def _ask(self, epochs: int) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{epochs}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it tells why below
        self._read()

    def _read(self) -> dict[str, Any]:
        """Its next answer."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        code = self._process.wait()
        self._errors.seek(0)
        last = [f"  {line}" for line in self._errors.read().splitlines()[-TAIL:]]
        raise UserError(f"--jax: {' '.join(self._command)}: ended with {code}; must have keras and jax: {HOW}", *last)
