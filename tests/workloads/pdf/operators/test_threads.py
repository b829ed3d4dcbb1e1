from threading import Barrier, Thread

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from tfperf.workloads.pdf.operators.threads import one_thread
from tfperf.workloads.pdf.operators.woodbury import Block, Whitening


def threads():
    """Threads of each BLAS library."""
    return [library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info()]


@pytest.fixture
def several():
    """Each BLAS library has three threads."""
    with ThreadpoolController().limit(limits=3, user_api="blas"):
        yield


def test_blas_has_one_thread_inside_and_its_own_afterwards(several):
    with one_thread:
        assert set(threads()) == {1}
        with one_thread:
            pass
        assert set(threads()) == {1}
    assert set(threads()) == {3}


def test_threads_come_back_after_an_error(several):
    with pytest.raises(ValueError), one_thread:
        raise ValueError
    assert set(threads()) == {3}


def test_the_last_of_several_at_once_gives_the_threads_back(several):
    begun, ended, seen = Barrier(2), Barrier(2), []

    def stay():
        with one_thread:
            begun.wait()
            ended.wait()
            seen.append(threads())

    other = Thread(target=stay)
    with one_thread:
        other.start()
        begun.wait()
    ended.wait()
    other.join()
    assert set(seen[0]) == {1}
    assert set(threads()) == {3}


def test_bits_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(0)
    white = Whitening(np.ones(600), (Block(slice(0, 600), rng.normal(size=(600, 150))),))
    masks = (rng.random((2, 600)) < 0.7).astype(float)
    found = []
    for count in (1, 3):
        with ThreadpoolController().limit(limits=count, user_api="blas"):
            found.append(white.compute_inverse_capacitances(masks)[0])
    np.testing.assert_array_equal(found[0], found[1])
