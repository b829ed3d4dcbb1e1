"""Models and samples from files: tables, images, `.keras` files with classes of one's own, and what check tells."""

import keras
import numpy as np
import pytest

from tests.workloads.keras import nets, picture_nets
from tests.workloads.keras.running import NETS, PICTURES, fit, fit_twice, run, write_card


def write_tables(folder):
    """The same samples as text, as Parquet and as arrays."""
    inputs, targets = nets.load()
    columns = {**{f"x{i}": inputs[:, i].astype("float32") for i in range(6)}, "y": targets[:, 0].astype("float32")}
    rows = [",".join(columns), *(",".join(repr(float(v)) for v in row) for row in zip(*columns.values(), strict=True))]
    (folder / "table.csv").write_text("\n".join(rows) + "\n")
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table(columns), folder / "table.parquet")
    np.savez(folder / "arrays.npz", x=np.column_stack([*columns.values()][:6]), y=columns["y"])


@pytest.mark.slow
def test_a_table_is_trained_on_as_its_arrays_are(tmp_path):
    write_tables(tmp_path)
    files = {name: {"build": None, "file": name, "batch": 16} for name in ("table.csv", "table.parquet", "arrays.npz")}
    found = [fit(write_card(tmp_path, data=data), tmp_path / f"run-{name}")["last"] for name, data in files.items()]
    assert found[0] == found[1] == found[2]
    for name in ("table.csv", "table.parquet"):
        card = write_card(tmp_path, data={**files[name], "targets": ["z"]})
        said = run("fit", card, "-o", tmp_path / "no", code=2)
        assert "z" in said and "x0" in said


def write_images(folder):
    rng = np.random.default_rng(0)
    for name, low in (("dark", 0), ("light", 128)):
        (folder / name).mkdir(parents=True)
        for number in range(20):
            image = rng.integers(low, low + 128, (9, 7, 3))
            keras.utils.save_img(folder / name / f"{number}.png", image, scale=False)


IMAGES = {"build": None, "folder": "images", "image_size": [8, 8], "batch": 8, "validation": 0.25}


@pytest.mark.slow
def test_a_fit_of_a_folder_of_images_is_resumed(tmp_path, monkeypatch):
    write_images(tmp_path / "images")
    fit_twice(write_card(tmp_path, f"{PICTURES}:build_pictures", IMAGES), tmp_path, monkeypatch, 7)


def test_a_folder_of_images_is_split_and_shuffled(tmp_path):
    write_images(tmp_path / "images")
    card = write_card(tmp_path, f"{PICTURES}:build_pictures", IMAGES)
    whole = fit(card, tmp_path / "whole")
    assert whole["steps"] == 16 and whole["not_bit_exact"] == [] and whole["last"]["val_loss"] < 0.6
    (tmp_path / "images" / "dark" / "3.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    said = run("fit", card, "-o", tmp_path / "broken", code=2)
    assert "dark/3.png" in said


def test_a_file_with_a_layer_of_ones_own_is_loaded_with_its_code_and_refused_without(tmp_path):
    picture_nets.build_doubled().save(tmp_path / "doubled.keras")
    model = {"file": "doubled.keras"}
    said = run("fit", write_card(tmp_path), "-o", tmp_path / "no", "--set", "model={file: doubled.keras}", code=2)
    assert "classes of your own are named by custom_objects: file.py" in said
    card = write_card(tmp_path, data={"batch": 16})
    card.write_text(
        card.read_text().replace(f"build: {NETS}:build_linear", f"file: doubled.keras\n  custom_objects: {PICTURES}")
    )
    assert fit(card, tmp_path / "run")["steps"] == 20
    assert model["file"] in run("check", card)


def test_check_builds_where_it_is_asked_to(tmp_path):
    said = run("check", "--build", write_card(tmp_path, data={"batch": 16, "validation": 0.2}))
    assert "parameters  65, 65 of them trainable; 260 bytes" in said and "inputs    (16, 6) float32" in said
    assert "samples     56 to train, 14 to validate" in said
    assert run("check", "--build", "runcards/pdf_dis.yaml", code=2).endswith("names no code; leave it out\n")
