"""The benchmark of ensembles trains what it says, and says what its rounds bear out."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks import ensembles, ensembles_sides
from benchmarks.ensembles import FORMS, JAX, OURS, describe_failure, make_row
from benchmarks.ensembles_models import PARTS, build_compiled, load_samples
from benchmarks.ensembles_sides import EnsembleRig, EpochSize, JaxSide, prepare_fit
from benchmarks.registry import REGISTRY
from tfperf.errors import UserError

MEASURE = REGISTRY["ensembles"].measure
FITS = ("fit 1 step graph", "fit 16 steps jit")
SMALL = EpochSize(64, 32)
SCRIPT = """
import json, sys
{first}
print(json.dumps({{"spread": "vmap"}}), flush=True)
for line in sys.stdin:
    open("log", "a").write(line)
    print("noise")
    print(json.dumps({{"seconds": int(line)}}), flush=True)
"""


def make_times(**others):
    return {OURS: [1.0, 2.0, 1.0], FITS[0]: [60.0, 120.0, 60.0], FITS[1]: [50.0, 100.0, 50.0], **others}


def test_a_row_sets_the_best_fit_beside_tfperf():
    row = make_row("mlp", "stacked, XLA", make_times(), FITS)
    assert (row["tfperf_ms"], row["best_fit"], row["fit_ms"]) == (1000.0, FITS[1], 50_000.0)
    assert row["ratio"] == pytest.approx(50.0) and row["ratio_low"] == pytest.approx(50.0)
    assert row["goal"] == "at least 40: reached"
    assert row["auto_fails"] == "no" and row["jax_ms"].startswith("n/a: python -m venv") and row["jax_ratio"] == "n/a"


def test_columns_of_forms_and_jax():
    more = {JAX: [0.5, 1.0, 0.5], "lanes graph": [3.0] * 3}
    row = make_row("mlp", "lanes, XLA", make_times(**more), FITS, forms=True)
    assert (row["jax_ms"], row["jax_ratio"]) == (500.0, pytest.approx(0.5))
    assert [row[f"{label}_ms"] for label in FORMS] == [3000.0, "n/a", "n/a", "n/a"]


@pytest.mark.parametrize(("high", "told"), [(None, "one round cannot tell"), (0.95, "yes"), (0.96, "no"), (2.0, "no")])
def test_auto_fails_where_even_the_upper_limit_is_below(high, told):
    assert describe_failure(high) == told


def test_unknown_parts_and_broken_batches_are_refused():
    with pytest.raises(UserError, match="--only: got 'gan'; must be some of mlp, lstm, transformer, cnn"):
        list(MEASURE(only="gan"))
    with pytest.raises(UserError, match="--records: got 100; must be a multiple of 32"):
        list(MEASURE(records=100))


@pytest.mark.parametrize("part", PARTS)
def test_models_take_their_samples(part):
    x, y = load_samples(part, 8, 4)
    model = build_compiled(part)
    assert len(x) == len(y) == 12 and model.input_shape[1:] == x.shape[1:]
    assert model.output_shape[1:] == (y.shape[1:] or (10,))


def write_program(folder, monkeypatch, first=""):
    (folder / "side.py").write_text(SCRIPT.format(first=first))
    monkeypatch.setattr(ensembles_sides, "JAX_SIDE", "side")
    monkeypatch.setattr(ensembles_sides, "HERE", folder)


def test_the_program_on_jax_answers_until_the_block_ends(tmp_path, monkeypatch):
    write_program(tmp_path, monkeypatch)
    monkeypatch.setattr(ensembles_sides, "time_epochs", lambda train: partial(train, 7))
    with JaxSide(Path(sys.executable), "mlp", SMALL) as side:
        assert side.spread == "vmap"
        for count in (1, 2):
            side.train()
            assert (tmp_path / "log").read_text() == "7\n" * count
    assert side._process.returncode is not None


def test_a_python_without_jax_is_refused(tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"--jax: got .*: No such file or directory; make one: python -m venv DIR"):
        JaxSide(tmp_path / "python", "mlp", SMALL).__enter__()
    write_program(tmp_path, monkeypatch, "raise ImportError('no jax')")
    with pytest.raises(UserError, match=r"ended with 1; must have keras and jax: python -m venv(.|\n)*no jax"):
        JaxSide(Path(sys.executable), "mlp", SMALL).__enter__()


@pytest.mark.slow
@pytest.mark.parametrize("form", [("lanes", False), ("stacked", True)])
def test_tfperf_trains_all_replicas(form):
    side = EnsembleRig("mlp", SMALL).prepare(*form)
    assert side is not None and side.train() > 0
    assert (side.choices.form, side.choices.xla) == form


@pytest.mark.slow
def test_rounds_take_turns(monkeypatch, capsys):
    monkeypatch.setattr(ensembles, "STEPS_PER_EXECUTION", (1,))
    (row,) = MEASURE(only="lstm", rounds=2, records=64)
    assert (row["part"], row["samples"], row["validated"], row["jax_form"]) == ("lstm", 64, 32, "n/a")
    assert row["rounds"] == 2 and np.isfinite(row["ratio_low"])
    assert capsys.readouterr().err.count("round") == 2


@pytest.mark.slow
def test_fit_is_timed():
    assert prepare_fit("mlp", SMALL, 16, True)() > 0
