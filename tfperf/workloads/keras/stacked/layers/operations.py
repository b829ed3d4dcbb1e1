"""Operations of keras.ops in a graph, of those that look at one sample at a time."""

from typing import Any

from keras.src.ops.numpy import Add

from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register
from tfperf.workloads.keras.stacked.layers.calls import has_variables, list_calls, list_constants
from tfperf.workloads.keras.stacked.layers.folded import fold_nest, is_number, unfold_nest
from tfperf.workloads.keras.stacked.layers.operation_rules import list_rules

RULES = list_rules()


@register
class StackedOperation(StackedLayer[Any]):
    """The template's own operation, called once with the samples of all replicas; constants stay what they are."""

    kinds = tuple(RULES)

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self._constants = {id(one) for call in list_calls(layer) for one in list_constants(call)}

    @classmethod
    def refuse(cls, layer: Any) -> str | None:
        """What joins samples of a batch is not stacked, nor what takes a variable that no layer stands for."""
        for call in list_calls(layer):
            if has_variables(call):
                return "it is called with a variable"
            if reason := RULES[type(layer)](layer, call):
                return reason
        return None

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> Any:
        """Of folded inputs, unfolded."""
        inputs, options = self._sort_inputs(inputs, options)
        inputs, options = (fold_nest(one, self._constants) for one in (inputs, options))
        return unfold_nest(self.layer(*inputs, **options), values.replicas)

    def _sort_inputs(self, inputs: Any, options: Any) -> tuple[Any, Any]:
        """The operands of a sum with one that has a number for each sample first."""
        if not isinstance(self.layer, Add):
            return inputs, options
        terms = (*inputs, *options.values())
        return sorted(terms, key=lambda one: id(one) in self._constants or not is_number(one)), {}
