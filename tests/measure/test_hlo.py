"""Counts against hand counts, on written-out text."""

import pytest

from tests.measure.hlo_samples import CHAIN, LOOPS, entry
from tfperf.measure.hlo import count_work, find_loop_body

INNER_FLOPS = 2 * 6 * 4 * 4 + 1  # the product and the counter
INNER_BYTES = 8 * (24 + 16 + 24) + 3 * 4
LESS_BYTES = 4 + 4 + 1  # both sides of the comparison, the answer
OUTER_BYTES = 5 * (INNER_BYTES + LESS_BYTES) + 8 * (24 + 1 + 6) + 8 * (24 + 6 + 24)


def figures(work):
    return work.flops, work.products, work.transcendental, work.bytes


def test_chain_of_products():
    work = count_work(CHAIN)
    products = 2 * 20 * 30 * 40 + 2 * 20 * 40 * 10
    moved = 4 * (20 * 30 + 30 * 40 + 20 * 40) + 4 * (20 * 40 + 40 * 10 + 20 * 10) + 4 * (200 + 200)
    assert figures(work) == (products + 200, products, 0, moved)
    assert work.instructions == {"dot": 2, "fusion": 1}


def test_a_computation_can_be_asked_for():
    for name in ("fused", "%fused"):
        assert figures(count_work(CHAIN, name)) == (200, 0, 0, 4 * (1 + 200) + 4 * 600)
    with pytest.raises(ValueError, match="no computation nothing"):
        count_work(CHAIN, "nothing")


def test_loops_count_their_turns():
    body = find_loop_body(LOOPS)
    work = count_work(LOOPS, body)
    assert body == "outer"
    assert figures(work) == (5 * (INNER_FLOPS + 1) + 24 + 24, 5 * 2 * 96, 24, OUTER_BYTES)
    assert work.instructions == {"dot": 5, "add": 5, "compare": 5, "reduce": 1, "fusion": 1}
    assert figures(count_work(LOOPS)) == figures(work)  # how often the outer one runs is not known: once


def test_the_most_expensive_loop_is_the_one():
    heavier = CHAIN.partition("ENTRY")[0].replace("%fused", "%light").partition("\n\n")[2]
    loop = "%small = f32[20,10]{1,0} while(%end), condition=%always, body=%light\n  ROOT %end.2 = f64[6,4]{1,0} "
    text = heavier + LOOPS.partition("\n\n")[2].replace("ROOT %end = f64[6,4]{1,0} ", "%end = f64[6,4]{1,0} ")
    text = text.removesuffix("}\n") + "  " + loop + "copy(%end)\n}\n"
    assert find_loop_body(text) == "outer"
    assert find_loop_body(text.replace("f32[20,10]", "f32[2000,1000]")) == "light"
    with pytest.raises(ValueError, match="no while loop"):
        find_loop_body(CHAIN)


def test_batched_product():
    text = entry(
        "%a = f32[5,30,40]{2,1,0} parameter(0)", "%b = f32[5,7,30]{2,1,0} parameter(1)",
        "ROOT %ab = f32[5,40,7]{2,1,0} dot(%a, %b), lhs_batch_dims={0}, lhs_contracting_dims={1}, "
        "rhs_batch_dims={0}, rhs_contracting_dims={2}",
    )  # fmt: skip
    assert count_work(text).flops == count_work(text).products == 2 * 5 * 40 * 7 * 30
    with pytest.raises(ValueError, match="do not match"):
        count_work(text.replace("f32[5,7,30]", "f32[5,7,31]"))
    with pytest.raises(ValueError, match="do not match"):
        count_work(text.replace("ROOT %ab = f32[5,40,7]", "ROOT %ab = f32[5,40,8]"))
    with pytest.raises(ValueError, match="rhs has no dimensions"):
        count_work(text.replace("rhs_contracting_dims={2}", "rhs_contracting_dims={3}"))


@pytest.mark.parametrize(("left", "right", "out", "inner"), [
    ("20,30", "30,40", "f32[20,40]{1,0}", 30),
    ("30,20", "40,30", "f32[20,40]{1,0}", 30),  # both transposed
    ("5,20,30", "5,30,40", "(f32[5,20,40]{2,1,0}, s8[4096]{0})", 30),  # with a workspace
    ("5,20,30", "30,40", "f32[5,20,40]{2,1,0}", 30),  # one factor for all
])  # fmt: skip
@pytest.mark.parametrize("target", ["__onednn$matmul", "__cublas$gemm", "__cublas$lt$matmul"])
def test_products_of_a_library(left, right, out, inner, target):
    text = entry(
        f"%a = f32[{left}]{{1,0}} parameter(0)", f"%b = f32[{right}]{{1,0}} parameter(1)",
        f'ROOT %ab = {out} custom-call(%a, %b), custom_call_target="{target}", backend_config={{"x":"}}"}}',
    )  # fmt: skip
    rows = 100 if left.count(",") == 2 else 20
    assert count_work(text).products == 2 * rows * 40 * inner
    with pytest.raises(ValueError, match="no rule to count custom-call"):
        count_work(text.replace(target, "TopK"))
    with pytest.raises(ValueError, match="do not match"):
        count_work(text.replace("30", "31", 1))


def test_a_product_within_a_fusion():
    inner = CHAIN.partition("ENTRY ")[2].replace("%main", "%ynn", 1)
    inner = inner.replace("fusion(%abc), kind=kLoop, calls=%fused", "negate(%abc)")
    text = entry(
        "%a = f32[20,30]{1,0} parameter(0)", "%b = f32[30,40]{1,0} parameter(1)", "%c = f32[40,10]{1,0} parameter(2)",
        "ROOT %f = f32[20,10]{1,0} fusion(%a, %b, %c), kind=kCustom, calls=%ynn, "
        'backend_config={"fusion_config":{"kind":"__ynn_fusion"}}',
        before=inner,
    )  # fmt: skip
    products = 2 * 20 * 30 * 40 + 2 * 20 * 40 * 10
    assert figures(count_work(text)) == (products + 200, products, 0, 4 * (600 + 1200 + 400 + 200))
    assert count_work(text).instructions == {"fusion": 1}


@pytest.mark.parametrize(("line", "moved"), [
    ("dynamic-slice(%a, %i, %i), dynamic_slice_sizes={1,64}", 2 * 256 + 4),
    ("slice(%a), slice={[3:4], [0:64]}", 2 * 256),
    ("gather(%a, %k), offset_dims={1}, slice_sizes={1,64}", 2 * 256 + 8),
    ("copy(%a)", 256 + 25600),
    ("add(%b, %b)", 256 + 256),
])  # fmt: skip
def test_parts_move_what_they_touch(line, moved):
    parameters = [
        "%a = f32[100,64]{1,0} parameter(0)", "%b = f32[1,64]{1,0} parameter(1)", "%i = s32[] parameter(2)",
        "%k = s32[2]{0} parameter(3)",
    ]  # fmt: skip
    assert count_work(entry(*parameters, f"ROOT %part = f32[1,64]{{1,0}} {line}")).bytes == moved


def test_updates_in_place_move_what_they_touch():
    parameters = [
        "%a = f32[100,64]{1,0} parameter(0)", "%b = f32[2,64]{1,0} parameter(1)", "%i = s32[] parameter(2)",
        "%k = s32[2,1]{1,0} parameter(3)",
    ]  # fmt: skip
    update = "ROOT %u = f32[100,64]{1,0} dynamic-update-slice(%a, %b, %i, %i)"
    scatter = "ROOT %s = f32[100,64]{1,0} scatter(%a, %k, %b), update_window_dims={1}, to_apply=%add"
    add = "%add (x: f32[]) -> f32[] {\n  ROOT %x = f32[] parameter(0)\n}\n\n"
    assert figures(count_work(entry(*parameters, update))) == (0, 0, 0, 2 * 512 + 4)
    assert figures(count_work(entry(*parameters, scatter, before=add))) == (128, 0, 0, 3 * 512 + 8)
    # within a fusion, behind a view; the slice of the old value is read
    inner = (
        "%f (a: f32[100,64], b: f32[2,64], i: s32[]) -> f32[10,640] {\n  " + "\n  ".join(parameters[:3]) + "\n"
        "  %old = f32[2,64]{1,0} dynamic-slice(%a, %i, %i), dynamic_slice_sizes={2,64}\n"
        "  %new = f32[2,64]{1,0} add(%old, %b)\n"
        "  %u = f32[100,64]{1,0} dynamic-update-slice(%a, %new, %i, %i)\n"
        "  ROOT %v = f32[10,640]{1,0} bitcast(%u)\n}\n\n"
    )
    fusion = "ROOT %r = f32[10,640]{1,0} fusion(%a, %b, %i), kind=kLoop, calls=%f"
    assert figures(count_work(entry(*parameters[:3], fusion, before=inner))) == (128, 0, 0, 512 + 512 + 4 + 512)


def test_a_fusion_reads_the_slices_it_needs():
    inner = (
        "%f (a: f32[100,64], b: f32[100,64]) -> (f32[10], f32[100,64]) {\n"
        "  %a = f32[100,64]{1,0} parameter(0)\n  %b = f32[100,64]{1,0} parameter(1)\n"
        "  %flat = f32[6400]{0} bitcast(%a)\n  %one = f32[10]{0} slice(%flat), slice={[0:10]}\n"
        "  %two = f32[10]{0} slice(%flat), slice={[20:30]}\n  %both = f32[10]{0} add(%one, %two)\n"
        "  %e = f32[100,64]{1,0} exponential(%b)\n"
        "  ROOT %out = (f32[10]{0}, f32[100,64]{1,0}) tuple(%both, %e)\n}\n\n"
    )
    text = entry(
        "%a = f32[100,64]{1,0} parameter(0)", "%b = f32[100,64]{1,0} parameter(1)",
        "ROOT %r = (f32[10]{0}, f32[100,64]{1,0}) fusion(%a, %b), kind=kLoop, calls=%f", before=inner,
    )  # fmt: skip
    assert figures(count_work(text)) == (10, 0, 6400, 80 + 25600 + 40 + 25600)
    with pytest.raises(ValueError, match="f has no parameter 1"):
        count_work(text.replace("parameter(1)\n  %flat", "parameter(2)\n  %flat"))


@pytest.mark.parametrize(("out", "window", "flops"), [
    ("64,2", "size=1x32 stride=1x32 pad=0_0x8_8", 64 * 48),  # blocks that do not overlap: each element once
    ("64,48", "size=1x48 pad=0_0x47_0", 64 * 48 * 48),
    ("64,24", "size=1x1 stride=1x2", 64 * 24),
])  # fmt: skip
def test_windows(out, window, flops):
    text = entry(
        "%a = f32[64,48]{1,0} parameter(0)", "%zero = f32[] constant(0)",
        f"ROOT %w = f32[{out}]{{1,0}} reduce-window(%a, %zero), window={{{window}}}, to_apply=%add_up",
    )  # fmt: skip
    assert count_work(text).flops == flops


def test_a_conditional_counts_its_dearest_branch():
    cheap = "%cheap (p: f32[9]) -> f32[9] {\n  %p = f32[9]{0} parameter(0)\n  ROOT %e = f32[9]{0} tanh(%p)\n}\n\n"
    dear = CHAIN.partition("ENTRY ")[2].replace("%main", "%dear", 1)
    branches = cheap + dear.replace("fusion(%abc), kind=kLoop, calls=%fused", "copy(%abc)")
    lines = ["%p = pred[] parameter(0)", "%t = () tuple()"]
    old = "ROOT %c = f32[20,10] conditional(%p, %t, %t), true_computation=%cheap, false_computation=%dear"
    new = "ROOT %c = f32[20,10] conditional(%p, %t, %t), branch_computations={%cheap, %dear}"
    for conditional in (old, new):
        work = count_work(entry(*lines, conditional, before=branches))
        assert work.products == 2 * 20 * 30 * 40 + 2 * 20 * 40 * 10 and work.transcendental == 0
        assert work.instructions == {"dot": 2, "copy": 1}
