"""What processes of a prediction load: models and preparations, as functions that can be sent to them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfperf.arrays import AnyArray
from tfperf.errors import UserError
from tfperf.workloads.predict.card import PredictModel, RecordPreparation

Model = Callable[[Mapping[str, AnyArray]], Mapping[str, AnyArray]]
Prepare = Callable[[Mapping[str, Sequence[Any]]], Mapping[str, Sequence[Any]]]


@dataclass(frozen=True)
class ModelLoader:
    """Loads the model of a card. names: of its outputs; empty: its own."""

    source: PredictModel
    names: tuple[str, ...] = ()

    def __call__(self) -> Model:
        """The function that workers call. Raises: UserError where there is no such model."""
        import keras
        import tensorflow as tf

        from tfperf.sources.models import make_model

        for device in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(device, True)
        model = make_model(self.source, "model")
        refuse_fixed_batch(model)
        if self.source.weights is not None:
            load_weights(model, self.source.weights)
        call = tf.function(lambda inputs: model(inputs, training=False), reduce_retracing=True)

        def predict(columns: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
            found = name_outputs(call(arrange_inputs(model, columns)), self.names, model)
            return {name: _convert_narrow(keras.ops.convert_to_numpy(value)) for name, value in found.items()}

        return predict


def refuse_fixed_batch(model: Any) -> None:
    """UserError where a model takes batches of one size alone."""
    for one in getattr(model, "inputs", None) or ():
        if one.shape and one.shape[0] is not None:
            raise UserError(
                f"model: input {one.name} takes batches of {one.shape[0]}; must take any: keras.Input(shape) without "
                "batch_size"
            )


def _convert_narrow(values: AnyArray) -> AnyArray:
    """bfloat16, which HDF5 does not have, as float32, which holds all of its values."""
    return values.astype(np.float32) if values.dtype.name == "bfloat16" else values


def load_weights(model: Any, path: Any) -> None:
    """Give a model the weights of a file. Raises: UserError."""
    try:
        model.load_weights(path)
    except Exception as error:
        raise UserError(f"model.weights: {path}: cannot be loaded: {' '.join(str(error).split())[:500]}") from None


def arrange_inputs(model: Any, columns: Mapping[str, AnyArray]) -> Any:
    """Columns as a model's call takes them: by the names of its inputs; a single one as it is.

    Raises: UserError where the model has inputs of other names.
    """
    wanted = [one.name.split(":")[0] for one in getattr(model, "inputs", None) or ()]
    if len(columns) == 1 and len(wanted) <= 1:
        return next(iter(columns.values()))
    if not wanted or set(wanted) == set(columns):
        return dict(columns)
    raise UserError(f"model: has inputs {', '.join(wanted)}; records have {', '.join(columns)}")


def name_outputs(found: Any, names: Sequence[str], model: Any) -> dict[str, Any]:
    """A model's outputs by names: a card's, else its own. Raises: UserError where there are more or fewer."""
    if isinstance(found, Mapping):
        own, values = list(map(str, found)), list(found.values())
    elif isinstance(found, list | tuple):
        own = list(getattr(model, "output_names", None) or ())
        values = list(found)
        own = own if len(own) == len(values) else [f"output_{place}" for place in range(len(values))]
    else:
        own, values = ["output"], [found]
    if names and len(names) != len(values):
        raise UserError(f"output.names: got {len(names)}; the model has {len(values)} outputs: {', '.join(own)}")
    return dict(zip(names or own, values, strict=True))


@dataclass(frozen=True)
class PrepareBuilder:
    """Builds the preparation of a card; None: columns as they are."""

    source: RecordPreparation | None

    def __call__(self) -> Prepare:
        """The function that is called for a window. Raises: UserError where there is none."""
        if self.source is None:
            return keep_columns
        if self.source.tokenizer is not None:
            return build_tokenizer(self.source)
        from tfperf.sources.code import CodeReference, call_function

        assert self.source.build is not None
        found = call_function(CodeReference.parse(self.source.build), self.source.arguments, "preprocess.build")
        if not callable(found):
            raise UserError(f"preprocess.build: returned {type(found).__name__}; must return a function")
        return found  # type: ignore[no-any-return]


def keep_columns(columns: Mapping[str, Sequence[Any]]) -> Mapping[str, Sequence[Any]]:
    """The same."""
    return columns


def build_tokenizer(source: RecordPreparation) -> Prepare:
    """The preparation of texts by a tokenizer file. Raises: UserError for another file."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UserError("preprocess.tokenizer: needs tokenizers: pip install 'tfperf[predict]'") from None
    try:
        tokenizer = Tokenizer.from_file(str(source.tokenizer))
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise UserError(f"preprocess.tokenizer: {source.tokenizer}: cannot be read: {said}") from None
    tokenizer.enable_truncation(source.most_tokens)
    tokenizer.no_padding()

    def prepare(columns: Mapping[str, Sequence[Any]]) -> dict[str, list[AnyArray]]:
        name = source.text or next(iter(columns))
        found = tokenizer.encode_batch(list(columns[name]))
        tokens = [np.array(one.ids, np.int32) for one in found]
        rows = {source.tokens: tokens}
        if source.mask is not None:
            rows[source.mask] = [np.ones(len(one), np.int32) for one in tokens]
        return rows

    return prepare
