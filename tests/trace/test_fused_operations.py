"""Operations of which XLA makes one, told by the holes between them and by their own time."""

from typing import Any

import pytest

from tests.trace.profiles import us
from tests.trace.test_findings import MARK, find


def list_operations(kind: str, length: float, scope: str = "", products: int = 0) -> tuple[list[Any], list[Any]]:
    """Four steps of 1 ms, each of 10 operations every 80 us, of which the first are products."""
    python = [("train", 1000 * i, 800, MARK) for i in range(4)]
    kinds = ["MatMul"] * products + [kind] * (10 - products)
    main = [
        (f"{scope if k % 2 else ''}a/A{k}:{kind}", 1000 * i + 80 * k, length)
        for i in range(4) for k, kind in enumerate(kinds)
    ]  # fmt: skip
    return python, main


def find_short(path, python, main):
    return [one for one in find(path, python, main, "loop") if one.rule == "short_operations"]


def test_holes_between_longer_operations_that_xla_fuses_are_told_with_these(tmp_path):
    """None takes less than 10 us; of 80 us each 40 are a hole."""
    (one,) = find_short(tmp_path, *list_operations("Mul", 40))
    assert one.bound_ms == pytest.approx(0.36 + 0.4) and one.gain_ms == pytest.approx(0.9 * 0.76 - 0.03)


def test_a_call_of_several_steps_starts_one_program_of_xla(tmp_path):
    """Three calls of three steps, one after the other in a loop."""
    python = [("train", 3000 * i, 2990, MARK) for i in range(3)]
    main = [(f"while/body/a/A{k}:Mul", 1000 * i + 95 * k, 60) for i in range(9) for k in range(10)]
    (one,) = [one for one in find(tmp_path, python, main, "loop", {"turns": 3}) if one.rule == "short_operations"]
    assert 0.9 * one.bound_ms - one.gain_ms == pytest.approx(0.03 / 3)


@pytest.mark.parametrize("products, told", [(0, True), (2, True), (3, False)])
def test_beside_many_products_it_is_not_told_what_xla_fuses(products, told, tmp_path):
    assert bool(find_short(tmp_path, *list_operations("Mul", 40, products=products))) == told


@pytest.mark.parametrize("kind, length, scope", [
    ("MatMul", 40, ""),  # products stay what they are
    ("Mul", 76, ""),  # holes of a twentieth are nothing to speak of
    ("Mul", 40, "while/body/"),  # half of them in a loop, which XLA has to start again each turn
])  # fmt: skip
def test_what_xla_does_not_fuse_is_not_told(kind, length, scope, tmp_path):
    assert not find_short(tmp_path, *list_operations(kind, length, scope))


def test_operations_that_are_long_are_work(tmp_path):
    """Of 120 us each, as of large arrays."""
    python = [("train", 2000 * i, 1800, MARK) for i in range(4)]
    main = [(f"a/A{k}:Mul", 2000 * i + 180 * k, 120) for i in range(4) for k in range(10)]
    assert not find_short(tmp_path, python, main)


def test_all_of_a_trainings_own_loop_is_in_it(tmp_path):
    """The loop over steps holds all operations but one."""
    python, main = list_operations("Mul", 40)
    main = [(f"while/body/{name}", begin, length) for name, begin, length in main]
    main += [("mean:Mean", 1000 * i + 795, 2) for i in range(4)]
    (one,) = find_short(tmp_path, python, main)
    assert one.bound_ms > 0.7


def test_a_program_of_an_accelerator_costs_no_start_that_is_known(tmp_path):
    """What it takes there beside the kernels is not known: nothing comes off."""
    python = [("train", 1000 * i, 990, MARK) for i in range(4)]
    kernels = [(f"k{k}", 1000 * i + 20 * k, 5, {"tf_op": f"a/A{k}:Mul"}) for i in range(4) for k in range(40)]
    (one,) = [one for one in find(tmp_path, python, [], "keras", **{"/device:GPU:0": {"Stream #1": us(*kernels)}})
              if one.rule == "short_operations"]  # fmt: skip
    assert one.gain_ms == pytest.approx(0.9 * one.bound_ms)
