"""The model that a card names, compiled as the card or its builder says."""

import keras

from tfperf.errors import CardError
from tfperf.sources.code import CodeReference
from tfperf.sources.models import build_model, load_model
from tfperf.workloads.keras.card import KerasCard


def make_model(card: KerasCard) -> keras.Model:
    """The model, compiled; its first weights are the same for the same seed. Raises: UserError."""
    keras.utils.clear_session()  # names carry counters: they are part of what checkpoints and files hold
    keras.utils.set_random_seed(card.seed)
    source = card.model
    if source.build is not None:
        model = build_model(CodeReference.parse(source.build), source.arguments, "model.build")
    else:
        assert source.file is not None
        model = load_model(source.file, "model.file")
    _compile(model, card)
    return model


def _compile(model: keras.Model, card: KerasCard) -> None:
    """With what the card names in place of what the model was compiled with; all else stays."""
    train = card.train
    given = {key: getattr(train, key) for key in ("optimizer", "loss", "metrics") if getattr(train, key)}
    if not model.compiled and (missing := [key for key in ("optimizer", "loss") if key not in given]):
        raise CardError(*(f"train.{key}: missing; the model is not compiled" for key in missing))
    if model.run_eagerly:
        raise CardError("model: is compiled with run_eagerly=True, whose steps no program holds; compile it without")
    if not given:
        return
    # what `compile` was given; Keras' own record of it for files has no objects
    own = dict(model._compile_config.config) if model.compiled else {}
    if "optimizer" in given:
        given["optimizer"] = _make_optimizer(card)
    try:
        if "loss" in given:
            keras.losses.get(train.loss)
        for name in train.metrics:
            if name != "accuracy":  # which of them it is, follows from the loss
                keras.metrics.get(name)
        model.compile(**own | given | ({"metrics": [*train.metrics]} if train.metrics else {}))
    except (ValueError, TypeError) as error:
        raise CardError(f"train: {' '.join(str(error).split())[:300]}") from None


def _make_optimizer(card: KerasCard) -> keras.optimizers.Optimizer:
    chosen = card.train.optimizer
    assert chosen is not None
    clipping = {key: value for key in ("clipnorm", "clipvalue", "global_clipnorm") if (value := getattr(chosen, key))}
    return getattr(keras.optimizers, chosen.name)(**chosen.make_arguments(), **clipping)
