"""The model that a card names, compiled as the card or its builder says."""

import hashlib
import json
import re
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras
import numpy as np

from tfperf.errors import CardError
from tfperf.runcard.faults import Fault
from tfperf.runcard.places import make_unfit_error
from tfperf.sources import models
from tfperf.sources.code import describe_misuse
from tfperf.sources.given import is_given
from tfperf.workloads.keras.card import EpochSchedule, KerasCard

COUNTERS = re.compile(r"_\d+(?=[\"/])|\"shared_object_id\": \d+")  # of layers, and addresses of objects
FUNCTIONS = ("get", "serialize", "deserialize")  # of Keras' modules, which are no losses or metrics


def make_model(
    card: KerasCard, scope: AbstractContextManager[Any] | None = None, predicts: bool = False,
    new_session: bool = True,
) -> keras.Model:  # fmt: skip
    """The model, compiled; its first weights are the same for the same seed. Raises: UserError.

    scope: in which it is built; new_session: of Keras' begins before, where names of layers are counted from the first.
    predicts: nothing else is done with it, and it stays as it is, compiled or not.
    """
    if new_session and not is_given(card.model.build, keras.Model):  # of a program's own models nothing may be cleared
        keras.utils.clear_session()  # names carry counters: they are part of what files hold
    keras.utils.set_random_seed(card.seed)
    refuse_names(card)
    with scope or nullcontext():
        model = models.make_model(card.model, "model")
    if not predicts:
        compile_model(model, card.train)
    return model


def refuse_names(card: KerasCard) -> None:
    """CardError for losses and metrics that Keras does not have."""
    given = {"train.loss": (keras.losses, card.train.loss)} if card.train.loss else {}
    given |= {f"train.metrics.{i}": (keras.metrics, name) for i, name in enumerate(card.train.metrics)}
    faults = []
    for key, (module, name) in given.items():
        try:
            if name not in ("accuracy", "acc", "crossentropy", "ce"):  # which of them it is, follows from the loss
                module.get(name)
        except (ValueError, TypeError):
            known = tuple(one for one in dir(module) if one[0] != "_" and one not in FUNCTIONS)
            faults.append(Fault(key, name, f"must be a name in {module.__name__.replace('._tf_keras', '')}", known))
    if faults:
        raise make_unfit_error(card, faults)


def digest_model(model: keras.Model) -> str | None:
    """A digest of how a model is made and compiled, whatever its layers are numbered; None where Keras cannot tell."""
    try:
        text = json.dumps(keras.saving.serialize_keras_object(model), default=str, sort_keys=True)
    except Exception:  # of the user's own get_config
        return None
    return hashlib.sha256(COUNTERS.sub("", text).encode()).hexdigest()


def count_parameters(model: keras.Model) -> int:
    """Numbers in its weights, also of a model that is built in part."""
    return sum(int(np.prod(variable.shape)) for variable in model.weights)


def compile_model(model: keras.Model, train: EpochSchedule) -> None:
    """With what the card names in place of what the model was compiled with; all else stays. Raises: CardError."""
    given: dict[str, Any] = {key: getattr(train, key) for key in ("optimizer", "loss") if getattr(train, key)}
    if not model.compiled and (missing := [key for key in ("optimizer", "loss") if key not in given]):
        examples = {"optimizer": "{name: Adam}", "loss": "mean_squared_error"}
        raise CardError(
            *(f"train.{key}: missing; the model is not compiled; for example {key}: {examples[key]}" for key in missing)
        )
    if model.run_eagerly:
        raise CardError("model: is compiled with run_eagerly=True, whose steps no program holds; compile it without")
    optimizer = _make_optimizer(model, train)
    schedule = getattr(model.optimizer if optimizer is None else optimizer, "_learning_rate", None)
    plateau = any(source.name == "ReduceLROnPlateau" for source in train.callbacks)
    if plateau and isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
        raise CardError("train.callbacks: ReduceLROnPlateau cannot set the rate of an optimizer that has a schedule")
    if not (given or train.metrics or optimizer is not None):
        return
    # what `compile` was given; Keras' own record of it for files has no objects
    own = dict(model._compile_config.config) if model.compiled else {}
    try:
        changes = {"optimizer": optimizer} if optimizer is not None else {}
        model.compile(**own | given | changes | ({"metrics": [*train.metrics]} if train.metrics else {}))
    except (ValueError, TypeError) as error:
        raise CardError(f"train: {' '.join(str(error).split())[:300]}") from None


def _make_optimizer(model: keras.Model, train: EpochSchedule) -> keras.optimizers.Optimizer | None:
    """Another one than the model is compiled with; None where that is to stay."""
    changes: dict[str, Any] = {}
    if train.accumulate is not None:
        changes["gradient_accumulation_steps"] = train.accumulate
    if train.learning_rate_schedule is not None:
        changes["learning_rate"] = _make_schedule(train)
    if (chosen := train.optimizer) is not None:
        clipping = {
            key: value for key in ("clipnorm", "clipvalue", "global_clipnorm") if (value := getattr(chosen, key))
        }
        kind, arguments = getattr(keras.optimizers, chosen.name), {**chosen.make_arguments(), **clipping}
    elif not changes:
        return None
    else:
        own = getattr(model.optimizer, "inner_optimizer", model.optimizer)  # that of mixed_float16 wraps it again
        if own is None:
            raise CardError(f"train.{'accumulate' if train.accumulate else 'learning_rate_schedule'}: the model has no "
                            "optimizer of Keras'; leave it out")  # fmt: skip
        kind, arguments = type(own), own.get_config()
        return kind.from_config({**arguments, **_encode_changes(changes)})
    return kind(**arguments | changes)


def _encode_changes(changes: dict[str, Any]) -> dict[str, Any]:
    """As a config of Keras has them."""
    schedule = changes.get("learning_rate")
    return changes | ({"learning_rate": keras.saving.serialize_keras_object(schedule)} if schedule else {})


def _make_schedule(train: EpochSchedule) -> keras.optimizers.schedules.LearningRateSchedule:
    assert train.learning_rate_schedule is not None
    name, arguments = train.learning_rate_schedule.name, train.learning_rate_schedule.arguments
    kind = getattr(keras.optimizers.schedules, name)
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in arguments.items()}
    try:
        return kind(**plain)
    except (TypeError, ValueError) as error:
        raise CardError(describe_misuse(f"train.learning_rate_schedule: {name}", kind, error)) from None
