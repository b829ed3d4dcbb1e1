"""The law of memory against made-up peaks whose truth is known, and against a published study."""

import numpy as np
import pytest

from tfperf.measure.memory_law import fit_law

GB = 1e9


def test_a_published_study_advises_1425_and_has_no_interval():
    # batch part of the peaks at two batch sizes; the model held 1.327 GB beside them, 30 GB were there in all
    law = fit_law([(50, 0.6641 * GB), (300, 5.7539 * GB)])
    assert law.find_batch((30 - 1.327) * GB) == 1425
    assert law.predict_interval(1425) is None and law.fixed == pytest.approx(-0.354 * GB, rel=1e-3)
    assert [text.split(":")[0] for text in law.list_warnings()] == [
        "the fixed part is below zero (-3.539e+08 bytes)", "fitted to two points",
        "the peak does not grow on one line yet",
    ]  # fmt: skip


def peak(batch):
    return max(500e6, 40e6 + 1.5e6 * batch)


def test_batches_of_the_optimizers_phase_are_left_out():
    law = fit_law([(b, peak(b)) for b in (8, 16, 32, 64, 128, 256, 512, 1024, 2048)])
    assert {*law.left_out} >= {8, 16, 32, 64, 128}
    assert law.predict(10_000) == pytest.approx(peak(10_000), rel=0.02) and law.settled
    naive = np.polyfit((8, 16, 32, 64, 128, 256, 512), [peak(b) for b in (8, 16, 32, 64, 128, 256, 512)], 1)
    assert np.polyval(naive, 10_000) < 0.7 * peak(10_000)


def test_what_has_not_settled_says_so():
    law = fit_law([(b, peak(b)) for b in (64, 128, 256, 512)])
    assert not law.settled and any("on one line yet" in text for text in law.list_warnings())


@pytest.mark.parametrize("noise", [0.003, 0.01, 0.02])
@pytest.mark.parametrize("batches", [(64, 128, 256, 512), (8, 32, 128, 192, 256, 384, 600, 800, 1000)])
def test_intervals_hold_one_more_measurement_in_nineteen_of_twenty(batches, noise):
    rng, held = np.random.default_rng(5), []
    for _ in range(400):
        noisy = {b: (40e6 + 1.5e6 * b) * (1 + noise * rng.standard_normal()) for b in (*batches, 2000)}
        law = fit_law([(b, noisy[b]) for b in batches])
        limits = law.predict_interval(2000)
        assert limits is not None
        held.append(limits[0] <= noisy[2000] <= limits[1])
    assert 0.93 < np.mean(held) <= 1


def test_the_largest_batch_is_within_the_budget_and_the_next_is_not():
    law = fit_law([(b, peak(b)) for b in (512, 1024, 2048)])
    found = law.find_batch(10e9)
    assert peak(found) <= 10e9 < peak(found + 1)
    assert law.find_batch(1e6) == 0


def test_one_batch_is_no_law():
    with pytest.raises(ValueError, match="at least 2"):
        fit_law([(8, 1.0), (8, 2.0)])


def test_smaller_batches_are_told_by_the_line_of_their_own_phase():
    law = fit_law([(b, peak(b) + (1e5 * b if b < 300 else 0)) for b in (8, 16, 32, 64, 128, 512, 1024, 2048)])
    assert law.smaller is not None and law.smaller[1] == pytest.approx(1e5, rel=0.2)
    for batch in (8, 32, 128, 2048):
        assert law.predict(batch) == pytest.approx(peak(batch) + (1e5 * batch if batch < 300 else 0), rel=0.02)
    assert fit_law([(b, 1e6 * b) for b in (8, 16, 32, 64)]).smaller is None
