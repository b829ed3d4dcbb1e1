"""Numbers of the command line's options have ranges."""

import pytest
from click.testing import CliRunner

from tests.make_pack import make_card
from tfperf.cli import main
from tfperf.errors import UserError
from tfperf.workloads.pdf.data.commondata import KinematicCuts


@pytest.mark.parametrize(
    "words",
    [
        ("ablate", "c.yaml", "--seconds", "nan"),
        ("ablate", "c.yaml", "--seconds", "inf"),
        ("ablate", "c.yaml", "--seconds", "1e300"),
        ("profile", "p", "--limit", "nan"),
        ("profile", "p", "--limit", "inf"),
        ("profile", "p", "--steps", "1" + "0" * 5000),
        ("profile", "p", "--skip", "100000001"),
        ("profile", "p", "--repeat", "100000000"),
        ("import-nnpdf", "t", "SET", "-o", "x.h5", "--q2-min", "nan"),
        ("import-nnpdf", "t", "SET", "-o", "x.h5", "--w2-min", "-1"),
    ],
)
def test_an_option_beyond_its_range_is_refused(words):
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit)
    assert f"Invalid value for '{words[-2]}'" in result.output


def test_noise_without_a_level_that_has_some(tmp_path):
    card, out = make_card(tmp_path), tmp_path / "out"
    result = CliRunner().invoke(main, ["closure", str(card), "-o", str(out), "--noise", "2", "--level", "0"])
    assert result.exit_code == 2 and not out.exists()
    want = "--set closure.noise=2: closure.noise: got 2; must be 0 or left out where level = 0, which has no noise"
    assert result.output.splitlines()[1:] == [f"error: {want}"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, "3", None, True, 1e300])
def test_kinematic_limits_from_python(value):
    with pytest.raises(UserError, match=r"w2_min: got .*; must be a number from 0 to 1e"):
        KinematicCuts(w2_min=value)


def test_a_card_that_no_machine_can_fit_is_told_the_memory_it_needs(tmp_path):
    card = make_card(tmp_path)
    sizes = [
        "--set",
        f"model.layers={[4096] * 31 + [8]}",
        "--set",
        f"model.activations={['tanh'] * 32}".replace("'", ""),
    ]
    result = CliRunner().invoke(main, ["check", str(card), "--set", "replicas=100000", *sizes])
    assert result.exit_code == 0
    assert "GB predicted peak; this machine has" in result.output and "the fit would fail here" in result.output
    small = CliRunner().invoke(main, ["check", str(card)])
    assert small.exit_code == 0 and "this machine" not in small.output
