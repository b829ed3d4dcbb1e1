"""A functional or sequential model for R copies at once: its graph is walked, each layer by its handler."""

from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from keras.src.models.functional import Functional
from keras.src.ops.operation import Operation

from tfperf.train.blueprints import Unread
from tfperf.workloads.keras.stacked.arguments import convert_inputs
from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, find_handlers
from tfperf.workloads.keras.stacked.layers.activation import refuse_activation
from tfperf.workloads.keras.stacked.regularizers import add_activity_losses


class StackedNetwork(Unread):
    """A model, or a model within it."""

    def __init__(self, model: keras.Model) -> None:
        """Raises: ValueError for one that cannot be stacked, see `list_reasons`."""
        if reasons := list_reasons(model):
            raise ValueError("; ".join(reasons))
        functional: Any = _get_functional(model)
        self.model, self._outer = functional, model
        self._handlers: dict[int, Any] = {id(layer): _make_handler(layer) for layer in self.model.operations}

    def call(self, values: Values, inputs: Any, training: bool) -> Any:
        """The model's outputs (R, B, ...), of inputs (R, B, ...)."""
        flat = _match_inputs(self.model, convert_inputs(self._outer, inputs))

        def take(operation: Operation) -> Any:
            return lambda *some, **options: self._call_layer(operation, values, training, some, options)

        return keras.src.models.functional.unpack_singleton(self.model._run_through_graph(flat, operation_fn=take))

    def _call_layer(self, layer: Any, values: Values, training: bool, inputs: Any, options: dict[str, Any]) -> Any:
        handler: Any = self._handlers[id(layer)]
        if isinstance(handler, StackedNetwork):
            (given,) = inputs
            if options.get("mask") is not None:  # which Keras finds at the tensors
                for one, mask in zip(keras.tree.flatten(given), keras.tree.flatten(options["mask"]), strict=False):
                    one._keras_mask = mask
            return handler.call(values, given, training)
        inputs, options = convert_inputs(layer, inputs), convert_inputs(layer, options)
        found = handler.call(values, *inputs, **{**options, "training": training})  # whatever the graph was built with
        add_activity_losses(values, layer, found)
        return found


def list_reasons(model: Any) -> list[str]:
    """Why a model cannot be stacked, in words: the layers that are at fault, each once; empty where it can."""
    functional = _get_functional(model)
    if functional is None:
        return [f"{type(model).__name__} is no functional or sequential model"]
    return list(dict.fromkeys(_list_faults(functional)))


def _list_faults(model: Functional) -> Iterator[str]:
    known = find_handlers()
    for layer in model.operations:
        if isinstance(layer, keras.layers.InputLayer):
            continue
        if isinstance(layer, keras.Model):
            yield from list_reasons(layer)
            continue
        handler = known.get(type(layer))
        what = f"{type(layer).__name__} ({layer.name})"
        if handler is None:
            yield f"{what} has no stacked form"
        elif reason := (
            handler.refuse(layer) or refuse_activation(getattr(layer, "activation", None)) or _refuse_precision(layer)
        ):
            yield f"{what}: {reason}"


def _refuse_precision(layer: Any) -> str | None:
    policy = getattr(layer, "dtype_policy", None)
    if policy is not None and policy.compute_dtype != policy.variable_dtype:
        return f"it computes in {policy.compute_dtype}, its weights are {policy.variable_dtype}"
    return None


def _get_functional(model: Any) -> Functional | None:
    """The functional model that it is, or holds; None for one with a step or call of its own."""
    own = type(model)
    if isinstance(model, keras.Sequential):
        return getattr(model, "_functional", None) if own.call is keras.Sequential.call else None
    return model if isinstance(model, Functional) and own.call is Functional.call else None


def _make_handler(layer: Any) -> "StackedLayer[Any] | StackedNetwork | None":
    if isinstance(layer, keras.layers.InputLayer):
        return None
    return StackedNetwork(layer) if isinstance(layer, keras.Model) else find_handlers()[type(layer)](layer)


def _match_inputs(model: Functional, inputs: Any) -> list[tf.Tensor]:
    """The tensors (R, B, ...) in the order of the model's inputs, with as many axes."""
    if isinstance(inputs, dict):
        names = [one.name for one in model.inputs]
        struct = model._inputs_struct
        flat = [inputs[name] for name in (sorted(struct) if isinstance(struct, dict) else names)]
    else:
        flat = keras.tree.flatten(inputs)

    def match(tensor: tf.Tensor, wanted: Any) -> tf.Tensor:
        rank = len(wanted.shape) + 1
        if len(tensor.shape) == rank + 1 and tensor.shape[-1] == 1:
            tensor = tf.squeeze(tensor, -1)
        elif len(tensor.shape) == rank - 1 and wanted.shape[-1] == 1:
            tensor = tensor[..., None]
        return tf.cast(tensor, wanted.dtype)

    return [match(tensor, wanted) for tensor, wanted in zip(flat, model.inputs, strict=True)]
