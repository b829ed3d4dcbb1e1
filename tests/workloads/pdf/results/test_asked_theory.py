"""Order, coupling and masses that an export asks for, where the data pack does not say them."""

from dataclasses import replace

import pytest
import yaml

from tests.make_result import make_result
from tests.workloads.pdf.results.test_lhapdf import THEORY, info_of, make_run
from tfperf.errors import UserError
from tfperf.workloads.pdf.results.lhapdf import export


@pytest.mark.parametrize(
    ("pack", "missing", "asked"),
    [
        (None, "order, alphas_mz, mc, mb", "order=NNLO --theory alphas_mz=0.118 --theory mc=1.51 --theory mb=4.92"),
        ({**THEORY, "order": "N5LO"}, r"order \(order is 'N5LO'\)", "order=NNLO"),
        ({**THEORY, "order": "NLO; NNLO (FONLL-C)"}, r"order \(order is 'NLO; NNLO", "order=NNLO"),
        ({key: value for key, value in THEORY.items() if key != "mb"}, "mb", "mb=4.92"),
    ],
)
def test_what_the_pack_does_not_say_is_asked_for(tmp_path, pack, missing, asked):
    with pytest.raises(UserError, match=f"does not say {missing}.*: name them, as --theory {asked}$"):
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


@pytest.mark.parametrize("given", [{"order": "NNLO"}, {"alphas_mz": "0.12"}, {"mt": "173"}])
def test_what_contradicts_the_pack_is_refused(tmp_path, given):
    result = make_result(replicas=3)
    told = replace(result, summary={**result.summary, "pack": {**THEORY, "theory": '{"mt": 172.5}'}})
    ((name, value),) = given.items()
    lines: list[str] = []
    with pytest.raises(UserError, match=f"--theory: got {name}={value}; the data pack says .*: leave it out"):
        export(make_run(tmp_path, told), tmp_path / "sets", "a_set", lines.append, given)
    assert not lines and not (tmp_path / "sets" / "a_set").exists()
    same = {"order": "NLO", "alphas_mz": str(THEORY["alphas_mz"]), "mt": "172.5"}
    assert export(tmp_path / "run", tmp_path / "sets", "a_set", lines.append, same).is_dir()
    assert lines and lines[0].endswith("are exported")


@pytest.mark.parametrize("given", [{"mc": "15.1"}, {"mb": "heavy"}])
def test_a_wrong_parameter_is_told_where_it_was_given(tmp_path, given):
    result = make_result(replicas=3)
    bare = replace(result, summary={**result.summary, "pack": {}})
    with pytest.raises(UserError, match=r"^--theory: m[cb]: got .*; must be a positive number"):
        export(make_run(tmp_path, bare), tmp_path / "sets", "a_set", lambda line: None, given)
