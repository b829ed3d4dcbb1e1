import pytest

from tests.study.fakes import make_auto_card
from tfperf.runcard.dump import to_json_tree
from tfperf.runcard.keys import get, put
from tfperf.workloads.pdf.kind import KIND
from tfperf.workloads.pdf.switches import SWITCHES, make_switches
from tfperf.workloads.switches import Switch, Switches, Variant

to_tree, to_card = to_json_tree, KIND.make_card


def plan(tree):
    return make_switches(to_card(tree)).make_plan(tree)


def test_a_card_survives_the_way_through_json(tmp_path):
    card = make_auto_card(tmp_path)
    assert to_card(to_tree(card)) == card


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda s: s.name)
def test_every_switch_gives_another_valid_card(tmp_path, switch):
    tree = to_tree(make_auto_card(tmp_path))
    variant = plan(tree).make_tree(tree, Variant((switch.name,)))
    assert to_card(variant) != to_card(tree)
    assert {k: get(variant, k) for k in switch.off} == dict(switch.off)
    assert tree == to_tree(make_auto_card(tmp_path)), "the card itself was changed"


def test_series_goes_from_the_naive_form_to_the_full_engine_one_switch_at_a_time(tmp_path):
    found = plan(to_tree(make_auto_card(tmp_path)))
    names = [s.name for s in SWITCHES]
    first, *engine = found.cumulative
    assert first.naive and [variant.off for variant in engine] == [tuple(names[i:]) for i in range(len(names) + 1)]
    assert engine[-1].key == "full" and len({f.key for f in found.variants}) == len(found.variants)
    assert [variant.off for variant in found.leave_one_out.values()] == [(name,) for name in names]


def test_a_form_is_compared_with_the_naive_form_of_its_quadrature(tmp_path):
    found = plan(to_tree(make_auto_card(tmp_path)))
    assert found.make_reference(Variant(("products", "xla"))) == Variant((), naive=True)
    assert found.make_reference(Variant(("quadrature", "xla"))) == Variant(("quadrature",), naive=True)
    assert found.make_reference(found.cumulative[0]) == found.cumulative[0]
    assert {f.key for f in found.references} == {"naive", "naive, without quadrature"}


def test_what_the_card_has_off_is_left_out_and_said(tmp_path):
    tree = to_tree(make_auto_card(tmp_path))
    put(tree, "engine.xla", False)
    found = plan(tree)
    assert "xla" not in [s.name for s in found.switches] and "engine.xla = false" in found.left_out["xla"]
    assert "retirement" in found.left_out


def test_another_switch_is_another_line(tmp_path):
    tree = to_tree(make_auto_card(tmp_path))
    new = Switch("positivity", "penalties", {"positivity.sets": "none", "integrability.nodes": 0}, changes_results=True)
    found = Switches((*SWITCHES, new), naive="plain").make_plan(tree)
    off = found.make_tree(tree, found.cumulative[1])
    assert off["positivity"]["sets"] == "none" and off["integrability"]["nodes"] == 0
    assert found.cumulative[-2].off == found.make_reference(Variant(("positivity",))).off == ("positivity",)
