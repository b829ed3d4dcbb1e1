"""Replicas that do not fit the memory are trained in chunks."""

import json
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import tfperf
from tests.workloads.keras.replicas import nets
from tests.workloads.keras.stacked.pairs import compile_model
from tfperf.workloads.keras.replicas import chunks, outcome
from tfperf.workloads.keras.replicas.chunks import choose_chunk_size, count_activation_bytes


def fit(tmp_path, name, chunk, **keys):
    x, y = nets.load()
    keys = {"engine.xla": False, "engine.chunk": chunk, **keys}
    setup = tfperf.ensemble(nets.build, replicas=5, seed=1, form="stacked" if keys.pop("stacked", 0) else "lanes")
    return setup.fit(x, y, epochs=2, batch_size=16, validation=0.2, keys=keys, run=tmp_path / name)


@pytest.mark.slow
def test_chunks_give_what_all_give_together(tmp_path, monkeypatch):
    whole, cut = fit(tmp_path, "whole", "auto"), fit(tmp_path, "cut", 2)
    state = json.loads((tmp_path / "cut" / "run.json").read_text())
    assert [part["own"]["ids"] for part in state["parts"]] == [[1], [2, 3], [4, 5]]
    for name, values in whole.outcome.weights.items():
        np.testing.assert_array_equal(cut.outcome.weights[name], values, err_msg=name)
    assert outcome.read(tmp_path / "cut" / "results.h5").summary["choices"]["form"] == "lanes"
    monkeypatch.setattr(chunks, "read_free_bytes", lambda: 20_000)
    few = fit(tmp_path, "few", "auto")
    np.testing.assert_array_equal(few.replicas.id, whole.replicas.id)
    assert len(json.loads((tmp_path / "few" / "run.json").read_text())["parts"]) > 1


def test_activations_are_counted_by_hand():
    model = compile_model([keras.Input((5,)), layers.Dense(7), layers.Dense(2)])
    assert count_activation_bytes(model, 10) == 4 * 10 * (5 + 7 + 2)


def test_as_many_as_fit(monkeypatch):
    model = compile_model([keras.Input((5,)), layers.Dense(7)], optimizer=keras.optimizers.SGD())
    weights = {str(i): one.value for i, one in enumerate(model.weights)}
    template: Any = SimpleNamespace(model=model, weights=weights, variables=weights, batch=10)
    card: Any = SimpleNamespace(engine=SimpleNamespace(chunk="auto", form="auto"))
    numbers = 7 * 4 * (5 * 7 + 7) + 3 * 4 * 10 * 12  # bytes of one that is trained
    monkeypatch.setattr(chunks, "SHARE", 1.0)
    for budget, wanted in ((1e12, 100), (25 * numbers + 100 * 4 * 42, 25), (0, 1)):
        monkeypatch.setattr(chunks, "read_free_bytes", lambda budget=budget: budget)
        assert choose_chunk_size(card, template, 100) == wanted
