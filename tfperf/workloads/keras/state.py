"""All that decides the future of a model's training: every variable that its step reads or writes."""

import re
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tfperf.arrays import ArraysByName
from tfperf.inputs.operations import find_stateful
from tfperf.sources.user_errors import run_user_code
from tfperf.train.snapshots import to_file_type
from tfperf.workloads.keras.feeds import Feed

COUNTER = re.compile(r"_\d+(?=/|$)")  # of layers, counted through a process


# what a step may do with its variables, which are kept; flow of control; texts for people
KEPT = (
    "Assign", "Resource", "Scatter", "ReadVariable", "VarHandle", "RngReadAndSkip", "RngSkip", "StatefulUniform",
    "StatefulStandardNormal", "StatefulTruncatedNormal", "StatefulRandomBinomial", "While", "If", "Case", "Assert",
    "Print", "Stack", "TensorList", "NoOp", "Iterator", "Optional", "Send", "Recv", "VariableShape",
)  # fmt: skip


class ModelState:
    """The variables of a model's steps, by number and name: weights, slots, metrics, seeds, whatever they use."""

    def __init__(
        self, model: keras.Model, feed: Feed, validation: Feed | None = None, file: Path | None = None
    ) -> None:
        """feed: of the training, validation: of what validates; the model is built for them, where it is not yet.

        file: of the model's code. Raises: UserCodeError where its step of validation fails.
        """
        own = type(model)  # models with a step of the user's are built when that is traced, others as Keras does it
        if own.call is not keras.Model.call and own.train_step is keras.Model.train_step:
            model._symbolic_build(data_batch=feed.read_first_batch())
        programs = [feed.make_loop(model.train_step, "graph").get_program()]
        if validation is not None:
            make_test = validation.make_loop(model.test_step, "graph").get_program
            programs.append(run_user_code(make_test, "model: tracing its step of validation (test_step)", file))
        self.log_names = [tuple(program.structured_outputs) for program in programs]  # of a step, and of a test step
        self._kinds = {kind for program in programs for kind in _list_kinds(program)}
        known = {id(variable.value): variable for variable in _list_variables(model)}
        captured = {id(variable): variable for program in programs for variable in _list_captured(program)}
        other = [variable for number, variable in captured.items() if number not in known]
        every = [*((v.path, v.value) for v in known.values()), *((v.name, v) for v in other)]
        self.variables: dict[str, tf.Variable] = {
            f"{number:05d} {COUNTER.sub('', name).replace('/', '.').replace('|', '_')}": variable
            for number, (name, variable) in enumerate(every)
        }

    def snapshot(self) -> ArraysByName:
        """Their values now."""
        return {name: to_file_type(variable.numpy()) for name, variable in self.variables.items()}

    def restore(self, snapshot: ArraysByName) -> None:
        """Give them these values. Raises: ValueError where they are another model's."""
        if {*snapshot} != {*self.variables}:
            raise ValueError("state of another model")
        for name, variable in self.variables.items():
            variable.assign(tf.cast(snapshot[name], variable.dtype))

    def find_unkept_draws(self) -> list[str]:
        """Operations of a step whose state is no variable, as draws of random numbers, by kind."""
        return [kind for kind in find_stateful(self._kinds) if not kind.startswith(KEPT)]


def _list_kinds(program: Any) -> set[str]:
    graph = program.graph.as_graph_def()
    return {node.op for part in (graph.node, *(f.node_def for f in graph.library.function)) for node in part}


def _list_captured(program: Any) -> list[tf.Variable]:
    """In the order of the program's inputs."""
    handles = {id(variable.handle): variable for variable in program.graph.variables}  # of a set: in no order
    return [handles[id(tensor)] for tensor in program.captured_inputs if id(tensor) in handles]


def _list_variables(model: keras.Model) -> list[keras.Variable]:
    """Weights, the optimizer's variables, those of metrics; each once."""
    own = [*model.variables, *(model.optimizer.variables if model.optimizer is not None else ())]
    own += [variable for metric in model.metrics for variable in metric.variables]
    return list({id(variable): variable for variable in own}.values())
