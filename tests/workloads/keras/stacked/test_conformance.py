"""Every class of `keras.layers` in an ensemble: docs/ensembles_layers.md says what is true."""

import keras
import pytest
from keras import layers

from tests.workloads.keras.stacked import conformance
from tests.workloads.keras.stacked.conformance import YES
from tests.workloads.keras.stacked.recipes import LEFT_OUT, build_model, collect_recipes, list_classes, use_precision
from tfperf.workloads.keras.stacked.layer import find_handlers
from tfperf.workloads.keras.stacked.layers.recurrent_cells import CELLS

# of which a stack must not be left to lanes
NEEDED = (
    "Dense", "EinsumDense", "Embedding", "Dropout", "AlphaDropout", "GaussianDropout", "GaussianNoise", "LSTM", "GRU",
    "SimpleRNN", "Bidirectional", "MultiHeadAttention", "GroupedQueryAttention", "Attention", "AdditiveAttention",
    "Masking", "Activation", "ReLU", "LeakyReLU", "ELU", "PReLU", "Softmax", "Add", "Average", "Concatenate", "Dot",
    "Maximum", "Minimum", "Multiply", "Subtract", "Flatten", "Permute", "Reshape", "RepeatVector", "BatchNormalization",
    "LayerNormalization", "GroupNormalization", "RMSNormalization", "UnitNormalization",
)  # fmt: skip
FAMILIES = ("Pooling", "SpatialDropout", "Cropping", "ZeroPadding", "UpSampling", "Conv")  # and all of these kinds
WITHOUT = ("ConvLSTM",)


def test_every_class_has_a_row_as_it_is_named():
    classes, rows = {*list_classes()}, {*conformance.read_page()}
    assert rows | {*LEFT_OUT} == classes and not rows & {*LEFT_OUT}
    assert {*collect_recipes()} == rows


def test_models_have_the_layers_that_they_are_named_after():
    for name, recipe in [*collect_recipes().items()][::9]:
        with use_precision(recipe):
            assert name in {type(one).__name__ for one in build_model([recipe])._flatten_layers()}


def test_rows_of_a_stack_are_those_of_named_handlers():
    rows = conformance.read_page()
    handled = {kind.__name__ for kind in (*find_handlers(), *CELLS) if getattr(layers, kind.__name__, None) is kind}
    within = {"StackedRNNCells", "GroupedQueryAttention"}  # of cells; of another name in keras.layers
    assert {name for name, row in rows.items() if row[2] == YES} - within == handled - within
    assert within <= {name for name, row in rows.items() if row[2] == YES}


def test_what_networks_are_made_of_has_a_stacked_form_as_named():
    rows = conformance.read_page()
    wanted = {*NEEDED} | {
        name for name in rows for family in FAMILIES if family in name and not name.startswith(WITHOUT)
    }  # fmt: skip
    assert len(wanted) > 70 and [name for name in sorted(wanted) if rows[name] != (YES,) * 4] == []


def test_some_rows_are_true():
    names = ["Dense", "BatchNormalization", "Dropout"]
    assert conformance.list_groups(names) == [names]
    # XLA takes most of the time
    assert conformance.measure_group(names, modes=[False]) == dict.fromkeys(names, (YES, YES))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of layers of Keras' own
def test_all_rows_are_true():
    rows = conformance.read_page()
    wrong = []
    for group in conformance.list_groups([*rows]):
        found = conformance.measure_group(group)
        wrong += [f"{name}: {cells}, the page has {rows[name]}" for name, cells in found.items() if cells != rows[name]]
        keras.utils.clear_session()
    assert not wrong, "\n".join(wrong)
