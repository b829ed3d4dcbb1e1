"""The search for settings over a machine that is made up: what wins, what only seems to, what is not his to take."""

import itertools

import pytest

from tfperf.errors import TrainingError
from tfperf.study.input_apply import OTHER_VALUES, Effort, InputSearch

TREE = {
    "data": {"input": None, "arguments": {"fused": False, "fast": False}, "choices": {"fused": [True], "fast": [True]}}
}


def make_stage(name, parallel=None, stateful=False):
    return {"kind": "map", "op": "ParallelMapDataset" if parallel else "MapDataset", "name": name, "parallel": parallel,
            "function": {"stateful": stateful}}  # fmt: skip


def make_time(cpu, wait):
    return {"cpu": {"value": cpu}, "wait": {"value": wait}, "per_output": 1.0}


def make_source(*stages, times):
    return {"kind": "tf.data.Dataset", "pipeline": {"stages": [*stages, {"kind": "prefetch", "op": "PrefetchDataset"}]},
            "times": {"stages": [*(make_time(*one) for one in times), make_time(0.0, 0.0)]}}  # fmt: skip


DECODES = make_source(make_stage("decode"), times=[(0.01, 0.0)])


class MadeUpMachine:
    """Answers trials by a card's speed, which every other turn is 1 % higher; notes how it was asked."""

    def __init__(
        self, compute_rate, compute_values=lambda data: 0, breaks=lambda data: False, count=lambda data: 40,
        compute_last=lambda data: 0,
    ):  # fmt: skip
        self.compute_rate, self.compute_values, self.breaks = compute_rate, compute_values, breaks
        self.count, self.compute_last, self.names = count, compute_last, []

    def ask(self, name, request):
        self.names.append(name)
        return {"candidates": [self.measure(tree["data"], request, name) for tree in request["cards"]]}

    def measure(self, data, request, name):
        if self.breaks(data):
            return {"fault": "no such map"}
        rate = self.compute_rate(data, name)
        rates = [
            [
                (1 / max(1 / rate, step)) * wobble
                for wobble in itertools.islice(itertools.cycle((1, 1.01)), request.get("turns", 4))
            ]
            for step in request.get("steps", [0.0])
        ]
        first = 1 if request.get("digest", {}).get("elements", 1) else 40  # of a whole pass
        values = [[self.compute_values(data)] * first for _ in range(2)]
        values[0][-1] += self.compute_last(data) if first > 1 else 0
        return {"rates": rates, "digests": {"values": values, "shapes": [[0], [0]], "cardinality": self.count(data)}}

    def search(self, source=DECODES, tree=TREE, step=None, **effort):
        made = InputSearch(
            tree=tree, ask=self.ask, show=lambda *_: None, cores=2, effort=Effort(**effort), source=source
        )
        return made.run(step)


def compute_rate(data, name=""):
    calls = (data["input"] or {}).get("parallel_calls")
    return (
        10.0
        * (2 if calls else 1)
        * (1.5 if data["arguments"]["fused"] else 1)
        * (3 if data["arguments"]["fast"] else 1)
    )


def test_what_wins_is_taken_and_proved_and_what_changes_values_is_offered_with_its_gain():
    machine = MadeUpMachine(compute_rate, lambda data: data["arguments"]["fast"])
    found = machine.search(step=1 / 25)
    assert found["settings"] == {"parallel_calls": "auto"} and found["arguments"] == {"fused": True}
    assert [one["key"] for one in found["changed"]] == ["data.input.parallel_calls", "data.arguments.fused"]
    assert [one["ratio"]["value"] for one in found["changed"]] == pytest.approx([2.0, 1.5])
    assert [(one["before"], one["after"]) for one in found["changed"]] == [(None, "auto"), (False, True)]
    (offered,) = found["offered"]
    assert offered["values"] == {"data.arguments.fast": True} and offered["why"] == OTHER_VALUES
    assert offered["ratio"]["value"] == pytest.approx(3.0)
    assert found["ratio"]["value"] == pytest.approx(3.0) and found["ratio_device"]["value"] == pytest.approx(2.5)
    assert found["busy"]["before"]["value"] == pytest.approx(0.4, rel=0.01)
    assert found["busy"]["after"]["value"] == pytest.approx(1.0)


def test_fewer_digests_of_a_slow_pass_are_compared_with_as_many():
    class Slow(MadeUpMachine):
        def measure(self, data, request, name):
            record = super().measure(data, request, name)
            calls = 9 if data["input"] is None else 16
            record["digests"]["values"] = [[*range(calls)], [*range(calls)]]
            return record

    assert Slow(compute_rate).search()["settings"] == {"parallel_calls": "auto"}


@pytest.mark.parametrize(
    "changes",
    [
        {"count": lambda data: 39 if data["arguments"]["fused"] else 40},  # as drop_remainder
        {"compute_last": lambda data: data["arguments"]["fused"]},  # other batches, but not among the first
        {"count": lambda data: -2},  # as of a filter
    ],
)
def test_an_argument_that_changes_the_end_of_a_pass_is_not_taken(changes):
    found = MadeUpMachine(compute_rate, lambda data: data["arguments"]["fast"], **changes).search()
    assert found["arguments"] == {} and found["settings"] == {"parallel_calls": "auto"}
    assert {"data.arguments.fused": True} in [one["values"] for one in found["offered"]]


def test_turns_of_a_process_are_one_value():
    """A process that by chance has one of them faster in all of its turns is no proof by itself."""
    odd = {}

    def rate(data, name):
        if "again" not in name:
            return compute_rate(data)
        return 10.0 * ((1.3 if odd.setdefault(name, len(odd)) == 0 else 1.0) if data["input"] else 1.0)

    assert not MadeUpMachine(rate).search()["changed"]


def test_a_win_that_does_not_come_again_is_not_taken():
    machine = MadeUpMachine(lambda data, name: compute_rate(data) if "again" not in name else 10.0)
    found = machine.search()
    assert not found["changed"] and not found["settings"] and found["ratio"] is None


def test_what_the_proof_does_not_bear_out_is_undone():
    machine = MadeUpMachine(lambda data, name: compute_rate(data) if "proof" not in name else 10.0)
    found = machine.search(step=0.01)
    assert not found["changed"] and not found["settings"] and not found["arguments"]
    assert found["ratio"]["value"] == pytest.approx(1.0) and "proof" in found["why"]


class DeviceLoser(MadeUpMachine):
    def measure(self, data, request, name):
        record = super().measure(data, request, name)
        if data["input"] and len(record["rates"]) > 1:
            record["rates"][1] = [0.5 * rate for rate in record["rates"][1]]
        return record


def test_what_loses_beside_a_device_is_undone():
    assert not DeviceLoser(compute_rate).search(step=1 / 10)["changed"]


def test_maps_that_wait_in_python_are_offered_several_calls_and_not_given_them():
    source = make_source(make_stage("fetch", stateful=True), times=[(0.001, 0.05)])

    def rate(data, name):
        calls = (data["input"] or {}).get("parallel_calls")
        return 80.0 if isinstance(calls, dict) else 10.0

    found = MadeUpMachine(rate).search(source)
    assert not found["changed"]
    (offered,) = found["offered"]
    assert offered["values"] == {"data.input.parallel_calls": {"fetch": 8}, "data.input.threads": 8}
    assert "state" in offered["why"] and offered["ratio"]["value"] == pytest.approx(8.0)


def test_waiting_maps_are_given_a_pool_and_as_many_calls():
    source = make_source(make_stage("fetch", parallel=2), times=[(0.001, 0.05)])

    def rate(data, name):
        settings = data["input"] or {}
        calls = settings.get("parallel_calls")
        return float(min(settings.get("threads", 2), calls["fetch"] if isinstance(calls, dict) else 2, 24))

    found = MadeUpMachine(rate).search(source)
    assert found["settings"] == {"threads": 32, "parallel_calls": {"fetch": 32}}


def test_data_that_differ_at_each_reading_have_no_arguments_changed():
    draws = itertools.count()
    machine = MadeUpMachine(compute_rate, lambda data: next(draws))
    found = machine.search()
    assert not found["repeatable"] and found["settings"] == {"parallel_calls": "auto"} and not found["arguments"]
    assert not any("fused" in name or "fast" in name for name in machine.names)


def test_a_candidate_that_fails_is_left_out_and_a_card_that_does_is_an_error():
    found = MadeUpMachine(compute_rate, breaks=lambda data: data["arguments"]["fused"]).search()
    assert [one["key"] for one in found["changed"]] == ["data.input.parallel_calls", "data.arguments.fast"]
    with pytest.raises(TrainingError, match="no such map"):
        MadeUpMachine(compute_rate, breaks=lambda data: True).search()


def test_other_kinds_of_data_have_nothing_to_set():
    found = MadeUpMachine(compute_rate).search({"kind": "PyDataset"})
    assert not found["changed"] and "PyDataset" not in found["settings"] and "no tf.data.Dataset" in found["why"]


def test_a_dataset_that_no_function_of_the_card_returns_is_not_asked_for():
    machine = MadeUpMachine(compute_rate)
    found = machine.search({**DECODES, "is_settable": False})
    assert not found["changed"] and "nothing can be set" in found["why"] and not machine.names
