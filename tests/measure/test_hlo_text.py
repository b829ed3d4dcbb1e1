"""Reading of HLO text, whole and damaged."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.measure.hlo_samples import CHAIN, LOOPS, entry
from tfperf.measure.hlo import count_work, find_loop_body
from tfperf.measure.hlo_text import parse


@pytest.mark.parametrize(("array", "size"), [
    ("f32[2,3]{1,0}", 24), ("bf16[6]{0}", 12), ("pred[6]{0}", 6), ("s4[5]{0:E(4)}", 3), ("c64[6]{0}", 48),
    ("f8e4m3fn[6]", 6), ("f64[]", 8), ("f32[0,7]{1,0}", 0), ("token[]", 0), ("f32[<=6]{0}", 24),
    ("(f32[6]{0}, (s8[2]{0:T(8,128)(4,1)}, u8[]), ())", 27),
])  # fmt: skip
def test_sizes(array, size):
    (instruction,) = parse(entry(f"ROOT %a = {array} parameter(0)"))["main"].instructions.values()
    assert instruction.bytes == size


@pytest.mark.parametrize(("lines", "said"), [
    ([], "main has no ROOT"),
    (["ROOT %a = f32[2]{0} negate(%b)"], "a needs b"),
    (["ROOT %a = f32[2]{0} negate(%a)"], "a needs a"),
    (["%a = f32[] constant(0)", "ROOT %a = f32[] constant(0)"], "a is defined twice"),
    (["ROOT %a = f32[] constant(0)", "ROOT %b = f32[] constant(0)"], "b is defined twice, or is a second ROOT"),
    (["ROOT %a = q32[2] constant(0)"], "cannot be read: q32"),
    (["ROOT %a = f32[x] constant(0)"], "cannot be read: x"),
    (["ROOT %a = f32[2] constant 0"], "cannot be read: constant 0"),
    (["ROOT %a = f32[2]{0} dot()"], "a has no operand 0"),
    (["%a = f32[2]{0} parameter(0)", "ROOT %b = f32[2]{0} cholesky(%a)"], "b: there is no rule to count chol"),
    (["%a = f32[2]{0} parameter(0)", "ROOT %b = f32[2]{0} convolution(%a, %a)"], "b: its dimensions have no labels"),
    (["%a = f32[2]{0} parameter(0)", "ROOT %b = f32[2]{0} fusion(%a), kind=kLoop"], "b: calls nothing"),
    (["%a = f32[2]{0} parameter(0)", "ROOT %b = f32[2]{0} call(%a), to_apply=%main"], "main: calls itself"),
    (["%a = f32[2]{0} parameter(0)", "ROOT %b = f32[2]{0} call(%a), to_apply=%g"], "no computation g"),
])  # fmt: skip
def test_faults_are_named(lines, said):
    with pytest.raises(ValueError, match=said):
        work = count_work(entry(*lines))
        raise AssertionError(work)


def test_an_end_after_the_entry_is_missed():
    with pytest.raises(ValueError, match="the text ends within %late"):
        parse(CHAIN + "\n%late () -> f32[] {\n  ROOT %a = f32[] constant(0)\n")


def test_deep_calls_end():
    before = "".join(
        f"%f{i} () -> () {{\n  %a = () call(), to_apply=%f{i + 1}\n  ROOT %b = () call(), to_apply=%f{i + 1}\n}}\n\n"
        for i in range(90)
    )
    last = "%f90 () -> () {\n  ROOT %a = () tuple()\n}\n\n"
    text = entry("ROOT %a = () call(), to_apply=%f0", before=before + last)
    assert count_work(text).bytes == 0  # 2^90 calls, each counted once
    with pytest.raises(ValueError, match="no while loop"):
        find_loop_body(text)
    with pytest.raises(ValueError, match="too deeply"):
        count_work(text.replace("%f90 ()", "%f90 () -> () {\n  ROOT %a = () call(), to_apply=%f91\n}\n\n" + "".join(
            f"%f{i} () -> () {{\n  ROOT %a = () call(), to_apply=%f{i + 1}\n}}\n\n" for i in range(91, 5000)
        ) + "%f5000 ()"))  # fmt: skip


@settings(max_examples=200, deadline=10_000)
@given(st.sampled_from([CHAIN, LOOPS]), st.floats(0, 1, exclude_max=True))
def test_text_that_is_cut_off_is_refused(text, share):
    with pytest.raises(ValueError, match="HLO: "):
        count_work(text.rstrip()[: int(share * len(text.rstrip()))])


@settings(max_examples=400, deadline=10_000)
@given(st.data())
def test_damaged_text_gives_a_count_or_a_value_error(data):
    text = data.draw(st.sampled_from([CHAIN, LOOPS]))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        length = data.draw(st.sampled_from([0, 1, 1, 3, 40]))
        other = data.draw(st.integers(0, len(text) - 1))
        patch = st.one_of(st.text('%"(){}[],=<0123456789abcwx_-./* \n', max_size=12), st.just(text[other : other + 30]))
        text = text[:at] + data.draw(patch) + text[at + length :]
    try:
        work = count_work(text)
    except ValueError as error:
        assert str(error).startswith("HLO: ")
    else:
        assert work.flops >= 0 and work.bytes >= 0


def test_many_open_quotes_and_brackets_take_no_time():
    start = time.perf_counter()
    for filling in ('"' * 100_000, '%a = f32[2] negate(%b, "' * 5_000, "(" * 100_000, "/*" * 50_000, "{[(" * 30_000):
        with pytest.raises(ValueError):
            parse("ENTRY %main () -> f32[] {\n" + filling + "\n}\n")
    assert time.perf_counter() - start < 5
