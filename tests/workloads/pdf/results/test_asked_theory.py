"""Order, coupling and masses that an export asks for, where the data pack does not say them."""

from dataclasses import replace

import pytest
import yaml

from tests.make_result import make_result
from tests.workloads.pdf.results.test_lhapdf import THEORY, info_of, make_run
from tfperf.errors import UserError
from tfperf.workloads.pdf.results.lhapdf import export


@pytest.mark.parametrize(
    ("pack", "missing"),
    [
        (None, "order, alphas_mz, mc, mb"), ({**THEORY, "order": "N5LO"}, r"order \(order is 'N5LO'\)"),
        ({**THEORY, "order": "NLO; NNLO (FONLL-C)"}, r"order \(order is 'NLO; NNLO"),
        ({key: value for key, value in THEORY.items() if key != "mb"}, "mb"),
    ],
)  # fmt: skip
def test_what_the_pack_does_not_say_is_asked_for(tmp_path, pack, missing):
    with pytest.raises(UserError, match=f"does not say {missing}.*--theory order=NNLO --theory alphas_mz"):
        info_of(tmp_path, pack)


def test_orders_of_packs_that_were_joined_may_be_the_same(tmp_path):
    assert info_of(tmp_path, {**THEORY, "order": "NNLO; NNLO (FONLL-C)"})["OrderQCD"] == 2


def test_what_is_asked_for_can_be_given(tmp_path):
    result = make_result(replicas=6, failed=2)
    bare = replace(result, summary={**result.summary, "pack": {"Q0": 1.65}})
    given = {"order": "NNLO", "alphas_mz": "0.12", "mc": "1.4", "mb": "4.75"}
    folder = export(make_run(tmp_path, bare), tmp_path / "sets", "a_set", lambda line: None, given)
    info = yaml.safe_load((folder / "a_set.info").read_text())
    assert [info[n] for n in ("OrderQCD", "AlphaS_MZ", "MCharm", "MBottom")] == [2, 0.12, 1.4, 4.75]
    for wrong in ({"ordre": "NNLO"}, {"order": "NNNLO"}):
        with pytest.raises(UserError, match=r"--theory: got .*; allowed: "):
            export(tmp_path / "run", tmp_path / "sets", "another", lambda line: None, wrong)
