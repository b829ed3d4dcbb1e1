"""A card's steps recorded by TensorFlow's profiler, as a fit takes them."""

from dataclasses import dataclass
from pathlib import Path

from tfperf.errors import CardError
from tfperf.operators.problem import build_problem
from tfperf.runcard.config import Card
from tfperf.runs import decisions
from tfperf.runs.inputs import read_inputs
from tfperf.runs.part import known_form, machine_started
from tfperf.trace.capture import Capture, capture
from tfperf.train.choices import choose
from tfperf.train.ensemble import Ensemble
from tfperf.train.forms import candidates

CALLS = 3  # at least, so that there are gaps between them
SKIPPED = 3  # calls before the window, of which the last two are timed


@dataclass(frozen=True)
class Recorded:
    """A profile of a card: the capture, and the steps in each of its calls."""

    taken: Capture
    steps_per_call: int

    @property
    def overhead(self) -> float:
        """How much longer a call takes while it is recorded, 0.05 for 5 %."""
        recorded, plain = self.taken.recorded_ms, self.taken.unrecorded_ms
        return recorded / plain - 1 if recorded and plain else 0.0


def record_card(card: Card, logdir: Path, steps: int, skip: int, host_level: int) -> Recorded:
    """Record `steps` steps after `skip` others of the card's training, in calls as long as a fit's, but three at least.

    Raises: CardError where the training is too short for that, or the card's files are at fault.
    """
    inputs = read_inputs(card)
    threads = machine_started(card, card.engine.threads if isinstance(card.engine.threads, int) else None)
    problem = build_problem(card, inputs.selection, card.replicas, inputs.t0_pdf, inputs.law)
    known = decisions.read(card, decisions.place(card, problem, threads))
    forms = candidates(card, problem) if known is None else [known_form(card, problem, known)]
    ensemble = Ensemble(card, problem, [0] * len(problem.ids), forms[0])
    choices = known or choose(card, ensemble, forms, threads)
    if known is None:
        decisions.keep(decisions.place(card, problem, threads), choices)
    per_call = max(1, min(choices.steps_per_call, steps // CALLS))
    calls, before = -(-steps // per_call), max(skip, SKIPPED * per_call)
    if before + calls * per_call > card.train.steps:
        wanted = f"{calls} calls of {per_call} steps are to be recorded after {before} others"
        raise CardError(f"train.steps: got {card.train.steps}, but {wanted}")
    ensemble.warm_up(choices.xla)
    ensemble.run(before - SKIPPED * per_call, choices.xla)
    with capture(logdir, calls, SKIPPED, host_level) as taken:
        taken.loops = len(ensemble.shards)
        taken.optimizers = [card.train.optimizer.name.lower()]
        for number in range(SKIPPED + taken.steps):
            with taken.step(number):
                ensemble.run(per_call, choices.xla)
                ensemble.evaluate(choices.xla)
    ensemble.close()
    return Recorded(taken, per_call)
