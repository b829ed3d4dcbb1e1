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
    train = card.train
    given = [key for key in ("optimizer", "loss", "metrics") if getattr(train, key)]
    if not given:
        if not model.compiled:
            raise CardError("train.loss: missing; the model is not compiled, so the card must name loss and optimizer")
        return
    if not model.compiled and (missing := [key for key in ("optimizer", "loss") if key not in given]):
        raise CardError(*(f"train.{key}: missing; the model is not compiled" for key in missing))
    own = model.get_compile_config() if model.compiled else {}
    loss, metrics = train.loss or own.get("loss"), [*train.metrics] or own.get("metrics")
    try:
        optimizer = model.optimizer if train.optimizer is None else _make_optimizer(card)
        model.compile(optimizer=optimizer, loss=loss, metrics=metrics)
        if train.loss is not None:
            keras.losses.get(train.loss)
        for name in train.metrics:
            keras.metrics.get(name)
    except ValueError as error:
        raise CardError(f"train: {' '.join(str(error).split())[:300]}") from None


def _make_optimizer(card: KerasCard) -> keras.optimizers.Optimizer:
    chosen = card.train.optimizer
    assert chosen is not None
    clipping = {key: value for key in ("clipnorm", "clipvalue", "global_clipnorm") if (value := getattr(chosen, key))}
    return getattr(keras.optimizers, chosen.name)(**chosen.make_arguments(), **clipping)
