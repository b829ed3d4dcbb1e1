"""A translation finds the losses of one device with every engine."""

import numpy as np
import pytest

from tests.workloads.translate.translations import carry_out, make_card
from tfperf.workloads.translate import results as translation

EXACT = "engine.precision=float64", "model.dropout=0", "data.buckets=none"


def history_of(card, run, *sets):
    """The losses of a fit with these overrides."""
    ((code, output),) = carry_out(["fit", card, "-o", run, *(word for one in sets for word in ("--set", one))])
    assert code == 0, output
    return translation.read(run / "results.h5").history


@pytest.fixture(scope="module")
def one_device(tmp_path_factory):
    """The card, and its losses on one device."""
    folder = tmp_path_factory.mktemp("engines")
    card = make_card(folder)
    return card, history_of(card, folder / "one", *EXACT)


@pytest.mark.slow
@pytest.mark.parametrize("placement", [
    "{devices: 2, variables: mirrored}", "{devices: 2, variables: host}", "{devices: 2, engine: mirrored}",
    "{devices: 2, engine: central, merge: host}",
])  # fmt: skip
def test_every_engine_finds_the_losses_of_one_device(one_device, tmp_path, placement):
    card, one = one_device
    two = history_of(card, tmp_path / "two", *EXACT, "data.batch=2", f"placement={placement}")
    np.testing.assert_allclose(two.loss, one.loss, rtol=1e-9)
    np.testing.assert_allclose(two.validation_loss, one.validation_loss, rtol=1e-9)
