"""An input study of objects that only this process has: its parts are measured here, one after the other."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfperf.inputs.free_cores import measure_free_cores
from tfperf.measure.environment import count_cores
from tfperf.report.input import conclude
from tfperf.report.input_page import render_input
from tfperf.report.sections import write_text
from tfperf.report.study_progress import ShowCount
from tfperf.results.contents import PAGE
from tfperf.results.files import make_folder
from tfperf.runcard.kinds import AnyCard
from tfperf.signals import Signals
from tfperf.study.child import Record
from tfperf.study.input import AS_IT_IS, INPUT_FILE, MOST_WORKERS, InputAsker, measure_once, predict_workers
from tfperf.study.input_trial import measure_card
from tfperf.study.trial_log import TrialLog, write

DATASET = "tf.data.Dataset"


class UnsavedLog(TrialLog):
    """What is measured of objects, which no later process could go on with."""

    def save(self, report: Mapping[str, Any]) -> None:
        """Nothing is written."""


@dataclass(kw_only=True)
class LocalAsker(InputAsker):
    """Measures in this process."""

    card: AnyCard

    def _run(self, key: str, request: Mapping[str, Any]) -> Record:
        return dict(measure_card(self.card, self.seconds, request["workers"]))


def measure_given_input(
    card: AnyCard, output: Path | None, show: ShowCount, seconds: float, most: int | None = None,
    measure_cores: Callable[[], Any] = measure_free_cores,
) -> dict[str, Any]:  # fmt: skip
    """The report of a card that names objects of this program, within `give_objects`; the model's state is put back.

    Numbers of workers are tried on a tf.data.Dataset alone, whose copies have pools of their own; other data would have
    to be changed for it. The peak of RAM is that of the whole program, so nothing is said of each worker's.
    output: the folder for input.json and report.html. Raises: UserError.
    """
    log = UnsavedLog(Path(), {}, INPUT_FILE)
    asker = LocalAsker(
        tree={}, log=log, signals=Signals(), show=show, seconds=seconds, timeout=0.0, command=(), count=3, card=card
    )
    found = asker.get(AS_IT_IS, None)
    cores = {"cores": count_cores(), "free_cores": measure_once(found, measure_cores)}
    report: dict[str, Any] = {"title": card.title, **cores, "as_it_is": found, "workers": None}
    if found["source"]["kind"] == DATASET:
        most = most or max(MOST_WORKERS, 2 * count_cores())
        report["workers"] = predict_workers(asker, found, most, measure_cores) | {"ram": None}
    conclude(report)
    if output is not None:
        make_folder(output)
        write(output / INPUT_FILE, report)
        write_text(output / PAGE, render_input(report))
    return report
