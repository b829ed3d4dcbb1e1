"""What a worker is given next, from its pace, the others' and what is left."""

from hypothesis import given
from hypothesis import strategies as st

from tfperf.infer.leases import Load
from tfperf.infer.pace import Paces, UnitRule, WorkerPace

SECONDS = st.floats(1e-4, 1.0)


def make_pace(fixed, slope):
    pace = WorkerPace()
    for cost in (50.0, 100.0, 300.0):
        pace.add(cost, fixed + slope * cost)
    return pace


@given(
    st.lists(st.tuples(SECONDS, st.floats(1e-6, 1e-2)), min_size=1, max_size=8),
    st.lists(st.integers(1, 2000), min_size=1, max_size=20),
    st.floats(0, 1e5),
)
def test_where_all_are_idle_and_something_is_left_someone_is_given_it(workers, costs, further):
    paces = Paces(UnitRule(1.0), {number: make_pace(*one) for number, one in enumerate(workers)})
    backlog = {number: Load(0, 0.0) for number in paces.workers}
    assert any(paces.choose_count(number, [float(one) for one in costs], backlog, further) for number in paces.workers)


def test_the_last_short_batch_is_not_left_to_others_who_leave_it_too():
    """Rates of long batches say less than a short one takes, since each batch has a part that does not shrink."""
    paces = Paces(UnitRule(1.0), {0: make_pace(0.01, 1e-5), 1: make_pace(0.01, 1e-5)})
    assert paces.choose_count(0, [10.0], {0: Load(0, 0.0), 1: Load(0, 0.0)}) == 1


def test_a_slow_worker_leaves_the_last_batch_to_a_fast_one_that_is_busy_for_a_moment():
    paces = Paces(UnitRule(1.0), {0: make_pace(0.0001, 1e-3), 1: make_pace(0.0001, 1e-5)})
    assert paces.choose_count(0, [100.0], {0: Load(0, 0.0), 1: Load(2, 200.0)}) == 0


def test_a_slow_worker_takes_it_where_the_fast_one_is_busy_for_longer():
    paces = Paces(UnitRule(1.0), {0: make_pace(0.0001, 1e-3), 1: make_pace(0.0001, 1e-5)})
    assert paces.choose_count(0, [100.0], {0: Load(0, 0.0), 1: Load(100, 20000.0)}) == 1
