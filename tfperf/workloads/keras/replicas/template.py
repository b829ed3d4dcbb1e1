"""The model that all replicas share the program of, and where each replica begins. R replicas."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import ArraysByName
from tfperf.errors import CardError, UserError
from tfperf.sources.samples import Samples
from tfperf.sources.user_errors import run_user_code
from tfperf.train.lanes import Template
from tfperf.workloads.keras.inputs import keep_order
from tfperf.workloads.keras.loops import select_batch, to_tensors
from tfperf.workloads.keras.memory_feed import MemoryFeed
from tfperf.workloads.keras.state import ModelState

# keys of a layer's settings that have names, or what was drawn or built
OF_A_COPY = ("name", "seed", "build_config", "keras_history", "input_layers", "output_layers")
LOSS, VALIDATED = "loss", "val_"


class ModelTemplate(Template):
    """A model that is built for its batches, and all variables that its steps of training and validation use."""

    def __init__(
        self, model: keras.Model, samples: int, training: Samples, validation: Samples | None, batch: int,
        file: Path | None, tensors: Any = None,
    ) -> None:  # fmt: skip
        """samples: that a replica is trained on, of those in `training`; batch: of them in a step, at most.

        file: of the model's code. tensors: what steps take their samples from in place of `training`. Raises: UserError
        where a step tells no loss; UserCodeError where it fails.
        """
        if getattr(model.optimizer, "use_ema", False):
            raise CardError(
                "model: its optimizer keeps averages of the weights (use_ema); replicas keep the weights of their best "
                "epoch instead, so that the averages would be lost: leave use_ema out"
            )
        self.model = model
        self._described = describe_model(model)
        self.batch = min(batch, samples)
        self.epoch = -(-samples // self.batch)
        self.short = samples % self.batch  # samples of the last step of an epoch; 0: as many as in the others
        self.training = to_tensors(training) if tensors is None else tensors
        self.validation = None if validation is None else to_tensors(validation)
        self.validated = 0 if validation is None else len(validation)
        feed = MemoryFeed(training, self.batch, keep_order)
        held = None if validation is None else MemoryFeed(validation, self.batch, keep_order)
        found: ModelState = run_user_code(lambda: ModelState(model, feed, held, file), "model: tracing its steps", file)
        self.log_names = found.log_names[0]
        self.test_names = found.log_names[1] if held is not None else ()
        for names, step in ((self.log_names, "train_step"), (self.test_names or (LOSS,), "test_step")):
            if LOSS not in names:
                raise UserError(f"model: its {step} tells {', '.join(names) or 'nothing'}; must tell {LOSS}")
        self.unkept_draws = found.find_unkept_draws()
        own = {id(variable.value) for variable in model.weights}
        weights = {name: v for name, v in found.variables.items() if id(v) in own}
        super().__init__(weights, {name: v for name, v in found.variables.items() if name not in weights})
        self.initial = found.snapshot()
        self.of_model = list(found.variables)[: len(model.variables)]  # in the model's order

    @property
    def metrics(self) -> tuple[str, ...]:
        """What is told of each epoch."""
        return (*self.log_names, *(f"{VALIDATED}{name}" for name in self.test_names))

    @property
    def monitored(self) -> str:
        """The loss by which the best epoch is told."""
        return f"{VALIDATED}{LOSS}" if self.test_names else LOSS

    def read_start(self, model: keras.Model) -> ArraysByName:
        """Where a replica begins whose model is built: its weights and seeds, all else as the template's.

        Raises: UserError for another model.
        """
        variables = model.variables
        shapes = [tuple(one.shape) for one in variables]
        if shapes != [self.initial[name].shape for name in self.of_model]:
            raise UserError("model.build: returns another model each time; must return the same with other weights")
        if changed := [name for name, value in describe_model(model).items() if value != self._described.get(name)]:
            raise UserError(
                f"model.build: {changed[0]} of the model differs from call to call; all replicas share one program, so "
                "that only weights may: rates for each are ensemble.learning_rate"
            )
        return {**self.initial} | {name: one.numpy() for name, one in zip(self.of_model, variables, strict=True)}

    def build_like(self, model: keras.Model) -> keras.Model:
        """A replica's model, built for the template's batches, where it was not yet."""
        if not model.built or len(model.variables) != len(self.of_model):
            model._symbolic_build(data_batch=self.take_batch())
        return model

    def take_batch(self) -> Any:
        """The first samples, as many as a step takes."""
        return select_batch(self.training, tf.range(self.batch))

    def find_learning_rate(self) -> str | None:
        """The name of the optimizer's rate; None where it has a schedule, or none."""
        optimizer = getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)  # that of mixed_float16
        rate = getattr(optimizer, "_learning_rate", None)
        value = rate.value if isinstance(rate, keras.Variable) else None
        return next((name for name, variable in self.state.items() if variable is value), None)

    def start_alike(self, one: ArraysByName, other: ArraysByName) -> bool:
        """Whether two replicas begin with equal weights, of those that are trained."""
        trained = {id(v.value) for v in self.model.trainable_variables}
        names = [name for name, v in self.weights.items() if id(v) in trained]
        return all(np.array_equal(one[name], other[name]) for name in names)


def describe_model(model: keras.Model) -> dict[str, str]:
    """What a model is beside its weights: its layers' settings and its optimizer's, without names and seeds."""
    parts = {} if model.optimizer is None else {"the optimizer": model.optimizer}
    layers = [one for one in model._flatten_layers() if not isinstance(one, keras.Model)]
    parts |= {f"layer {number + 1} ({type(one).__name__})": one for number, one in enumerate(layers)}
    return {name: _describe_part(one) for name, one in parts.items()}


def _describe_part(part: Any) -> str:
    """Empty where it does not tell."""
    try:
        return json.dumps(_leave_out(keras.saving.serialize_keras_object(part)), sort_keys=True, default=repr)
    except Exception:  # a layer or model of the user's that cannot be saved
        return ""


def _leave_out(nest: Any) -> Any:
    """Without what may differ from copy to copy, and what was built of it."""
    if isinstance(nest, dict):
        return {key: _leave_out(value) for key, value in nest.items() if key not in OF_A_COPY}
    return [_leave_out(one) for one in nest] if isinstance(nest, list | tuple) else nest


def refuse_equal_starts(starts: Sequence[ArraysByName], template: ModelTemplate) -> None:
    """CardError where the first two replicas begin with equal weights."""
    if template.start_alike(*starts[:2]):
        raise CardError(
            "model: all replicas would begin with equal weights: they come from a file, a model that is built already, "
            "initializers with a seed, or a builder that calls keras.utils.set_random_seed; give a function that "
            "builds it and leaves seeds out, or allow it by ensemble.same_start: true"
        )
