"""The encoder beside a slow float64 one; that padding changes nothing, and that its files are whole."""

import subprocess
import sys

import keras
import numpy as np
import pytest

from tests.runcard.cards import ROOT
from tests.zoo.encoder_truth import draw_tensors, encode
from tfperf.errors import UserError
from tfperf.sources.models import use_precision
from tfperf.zoo.encoder import build_encoder
from tfperf.zoo.encoder_weights import assign_weights

VOCABULARY, HEADS, POSITIONS = 40, 3, 9
SMALL = {"vocabulary": VOCABULARY, "layers": 2, "width": 12, "heads": HEADS, "inner": 20, "positions": POSITIONS}
POOLER = 384 * 384 + 384  # of the published model; nothing of a row depends on it


@pytest.fixture(scope="module")
def tensors():
    return draw_tensors(VOCABULARY, 2, 12, 20, POSITIONS)


def make_model(tensors, precision="float32"):
    with use_precision(precision):
        model = build_encoder(**SMALL)
    assign_weights(model, tensors)
    return model


@pytest.fixture(scope="module")
def model(tensors):
    return make_model(tensors)


def draw_texts(lengths, seed=2):
    draws = np.random.default_rng(seed)
    return [draws.integers(1, VOCABULARY, length) for length in lengths]


def pad(texts, length):
    return np.array([np.pad(one, (0, length - len(one))) for one in texts], np.int32)


def compute(model, tokens):
    return keras.ops.convert_to_numpy(model(tokens, training=False))


def test_rows_are_those_of_the_slow_encoder(tensors):
    """In float64: sums of some 50 numbers in two layers, so 1e-12 is far above all rounding, and far below any slip."""
    texts = draw_texts([1, 2, 5, POSITIONS])
    model = make_model(tensors, "float64")
    found = compute(model, pad(texts, POSITIONS))
    wanted = np.array([encode(one, tensors, HEADS) for one in texts])
    assert found.dtype == np.float64 and np.abs(wanted).max() > 0.3
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-12)


def test_float32_is_as_near_as_its_rounding(model, tensors):
    texts = draw_texts([3, 8, 4])
    wanted = np.array([encode(one, tensors, HEADS) for one in texts])
    np.testing.assert_allclose(compute(model, pad(texts, 8)), wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("length", range(1, POSITIONS + 1))
def test_a_text_has_the_same_row_whatever_stands_beside_it(model, length):
    (text,) = draw_texts([length], seed=length)
    alone = compute(model, text[None].astype(np.int32))
    beside = compute(model, pad([text, *draw_texts([POSITIONS, 1])], POSITIONS))
    np.testing.assert_allclose(beside[:1], alone, rtol=0, atol=1e-5)
    assert np.abs(beside[1] - alone).max() > 0.05


def test_a_text_without_tokens_is_a_row_of_zeros(model):
    np.testing.assert_array_equal(compute(model, np.zeros((1, 4), np.int32)), np.zeros((1, 12)))


def test_more_places_than_there_are_positions_are_refused(model):
    with pytest.raises(Exception, match=r"ncompatible shapes|Dimensions must be equal"):
        compute(model, pad(draw_texts([POSITIONS + 1]), POSITIONS + 1))


def test_heads_must_divide_the_width():
    with pytest.raises(UserError, match="heads: got 5; must divide width = 12"):
        build_encoder(**{**SMALL, "heads": 5})


def test_the_default_has_the_published_number_of_weights():
    model = build_encoder()
    assert model.count_params() == 22_713_216 - POOLER and POOLER == 147_840
    assert model.output_shape == (None, 384) and model.input_shape == (None, None)


def test_weights_are_of_the_seed_alone():
    texts = pad(draw_texts([5]), 5)
    keras.utils.set_random_seed(1)
    first = build_encoder(**SMALL)
    keras.utils.set_random_seed(2)
    np.testing.assert_array_equal(compute(build_encoder(**SMALL), texts), compute(first, texts))
    assert np.abs(compute(build_encoder(**SMALL, seed=3), texts) - compute(first, texts)).max() > 0.01
    kernels = [np.asarray(one) for one in first.weights if one.shape == (12, 36)]
    assert len(kernels) == 2 and not np.allclose(kernels[0], kernels[1])


def test_a_saved_encoder_is_whole_in_safe_mode(model, tmp_path):
    model.save(tmp_path / "encoder.keras")
    found = keras.saving.load_model(tmp_path / "encoder.keras", safe_mode=True)
    texts = pad(draw_texts([5, 7]), 8)
    np.testing.assert_array_equal(compute(found, texts), compute(model, texts))
    assert [layer.get_config() for layer in found.layers] == [layer.get_config() for layer in model.layers]


def test_weights_are_saved_and_loaded(model, tmp_path):
    model.save_weights(tmp_path / "e.weights.h5")
    other = build_encoder(**SMALL, seed=9)
    other.load_weights(tmp_path / "e.weights.h5")
    texts = pad(draw_texts([5]), 5)
    np.testing.assert_array_equal(compute(other, texts), compute(model, texts))


def test_half_precision_is_near(tensors, model):
    texts = pad(draw_texts([6, 9]), 9)
    found = compute(make_model(tensors, "mixed_bfloat16"), texts).astype(np.float32)
    cosines = np.sum(found * compute(model, texts), axis=1) / np.linalg.norm(found, axis=1)
    assert cosines.min() > 0.95


@pytest.mark.slow
def test_a_file_is_loaded_where_nothing_of_the_zoo_is_imported_before(model, tmp_path):
    """As a prediction does it, with the layers named by custom_objects."""
    model.save(tmp_path / "encoder.keras")
    (tmp_path / "layers.py").write_text("from tfperf.zoo import encoder_layers\n")
    code = (
        "from pathlib import Path\n"
        "from tfperf.runcard.data_sources import ModelSource\n"
        "from tfperf.sources.models import make_model\n"
        "source = ModelSource(file=Path('encoder.keras'), custom_objects=Path('layers.py').resolve())\n"
        "print(make_model(source, 'model').count_params())\n"
    )
    environment = {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "PATH": "/usr/bin:/bin"}
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0 and said.stdout.strip() == str(model.count_params()), said.stderr
