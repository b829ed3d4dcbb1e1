"""Trainings over logical CPUs, which are fixed before TensorFlow starts.

python -m tests.train.shard_runs FOLDER SET ...: FOLDER/SET/<name>.npz for each training; test_shards.py looks at them.
"""

import json
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import tensorflow as tf

from tests.train.problems import checkpoints_in, make_ensemble, make_problem, signal_at
from tfperf.errors import CardError, Interrupted
from tfperf.signals import Signals
from tfperf.train.retirement import Retirement
from tfperf.train.trainer import Trainer
from tfperf.workloads.pdf.forms import Chi2Form, build_form
from tfperf.workloads.pdf.operators.problem import select_replicas
from tfperf.workloads.pdf.stack import PDFStack
from tfperf.workloads.pdf.tolerance import Chi2Check

CPUS, STEPS, AT, STOP = 4, 60, (30,), 25
FAST = ["train.stopping.patience=5", "train.optimizer={name: Nadam, learning_rate: 0.05}"]
FOLDED = ["engine.tolerance=0.02", "engine.check_every=20", "engine.form=folded"]
BROKEN = 6


class Case:
    """One training."""

    def __init__(self, folder, replicas, devices, indices=None, at=AT, precision="float32", extra=(), xla=False):
        self.folder, self.xla = folder, xla
        overrides = [*FAST, f"engine.devices={devices}", *extra]
        card, problem = make_problem(folder, overrides, precision=precision, replicas=replicas, steps=STEPS)
        self.card, self.problem = card, problem if indices is None else select_replicas(problem, np.array(indices))
        self.at, self.seen = at, {}
        self.ensemble = make_ensemble(self.card, self.problem)

    def trainer(self, name, signals_at=None):
        plan = Retirement(self.ensemble.layout, STEPS, self.at, 0.0)
        self.check = Chi2Check(self.card, self.problem)
        return Trainer(self.ensemble, self.xla, 10, plan, checkpoints_in(self.folder / name), self.check)

    def train(self, name, signals=None):
        """To the end, or to the signal; everything is kept in NAME.npz."""
        trainer = self.trainer(f"checkpoints-{name}")
        step, warnings = trainer.resume() if trainer.checkpoints.has_any() else (0, [])
        try:
            trainer.train(signals or Signals(), lambda _: self.keep_state())
        except Interrupted:
            name += "-interrupted"
        history = trainer.make_history()
        form = self.ensemble.form
        assert isinstance(form, Chi2Form)
        arrays = {f"end/{k}": v for k, v in self.ensemble.gather_state().items()}
        arrays |= {f"best/{k}": v for k, v in self.ensemble.get_best_weights().items()}
        arrays |= {f"at/{step}/{k}": v for step, state in self.seen.items() for k, v in state.items()}
        arrays |= {f"history/{k}": v for k, v in {"step": history.step, **history.metrics}.items()}
        facts = {
            "sizes": self.ensemble.sizes, "slots": [s.size for s in self.ensemble.shards], "warnings": warnings,
            "resumed": step, "quarantined": self.ensemble.count_quarantined(), "found": self.check.found,
            "rank": form.rank, "steps": [int(s.loop.step) for s in self.ensemble.shards if s.loop],
        }  # fmt: skip
        np.savez(self.folder / f"{name}.npz", facts=json.dumps(facts), **arrays)  # type: ignore[arg-type]
        self.ensemble.close()

    def start(self, name):
        """The first steps alone."""
        self.ensemble.run(20, self.xla)
        arrays = {f"at/20/{k}": v for k, v in self.ensemble.gather_state().items()}
        np.savez(self.folder / f"{name}.npz", **arrays)  # type: ignore[arg-type]

    def keep_state(self):
        self.seen[self.ensemble.step] = {n: np.copy(v) for n, v in self.ensemble.gather_state().items()}


def bits(folder):
    """The same replicas in stacks of four on two devices and on four, and beside one that is broken."""
    Case(folder, 8, 2).train("two")
    Case(folder, 16, 4).start("four")
    poisoned = Case(folder, 8, 2, at=())
    stack = poisoned.ensemble._get_loop(poisoned.ensemble.shards[1]).stack
    assert isinstance(stack, PDFStack)
    kernel = stack.model.hidden[1].kernel
    value = kernel.numpy()
    value[BROKEN - 4] = np.nan
    kernel.assign(value)
    poisoned.train("poisoned")


def alone(folder):
    """The second of the stacks on a device of its own."""
    Case(folder, 8, 1, range(4, 8)).train("alone")


def exact(folder):
    """In float64, on one device and on three."""
    for name, devices in (("one", 1), ("three", 3)):
        Case(folder, 8, devices, at=(), precision="float64").train(name)


def xla(folder):
    """The same with XLA."""
    Case(folder, 4, 2, xla=True).start("two")
    Case(folder, 4, 1, [2, 3], xla=True).start("alone")


def resume(folder):
    """Interrupted on two devices, resumed on two, one and three."""
    exact = {"precision": "float64", "at": (15,)}
    Case(folder, 8, 2, **exact).train("whole")
    case = Case(folder, 8, 2, **exact)
    case.train("stopped", signal_at(case.ensemble, STOP))
    for devices in (1, 2, 3):
        shutil.copytree(folder / "checkpoints-stopped", folder / f"checkpoints-on-{devices}")
        Case(folder, 8, devices, **exact).train(f"on-{devices}")


def tolerance(folder):
    """A folded form with too few directions, whose rank is raised."""
    for name, devices in (("one", 1), ("two", 2)):
        case = Case(folder, 6, devices, at=(), precision="float64", extra=FOLDED)
        case.ensemble.form = replace(build_form(case.card, case.problem, "folded"), rank=8)
        case.train(name)


def places(folder):
    """Where things are, what a wrong number of devices says, and when calls begin and end."""
    many = Case(folder, 2, "all").ensemble
    try:
        Case(folder, 2, CPUS + 1)
        fault = ""
    except CardError as error:
        fault = str(error)
    case = Case(folder, 5, 3, extra=["train.stopping.patience=1000"])
    case.ensemble.warm_up(False, False)
    placed = []
    for shard in case.ensemble.shards:
        loop = shard.loop
        assert loop is not None and isinstance(loop.stack, PDFStack)
        stack, terms = loop.stack, loop.stack.replica_losses
        tensors = [
            *loop.list_variables().values(),
            loop.kept,
            loop.flat_weights.value,
            stack.points,
            *terms.inverse_capacitances,
        ]
        tensors += [matrix for _, matrix, _ in terms.all_residuals.contraction.linear]
        placed.append(sorted({tf.DeviceSpec.from_string(t.device).device_index for t in tensors}))
    spans = []
    for shard in case.ensemble.shards:
        assert shard.loop is not None
        steps = shard.loop._compiled["steps", False]

        def timed(count, steps=steps):
            start = time.perf_counter()
            taken = int(steps(count))
            spans.append((start, time.perf_counter(), taken))

        shard.loop._compiled["steps", False] = timed  # type: ignore[assignment]
    case.ensemble.run(STEPS, False)
    facts = {
        "placed": placed, "fault": fault, "rows": [s.indices.tolist() for s in case.ensemble.shards],
        "shards": len(many.shards), "spans": spans,
    }  # fmt: skip
    (folder / "places.json").write_text(json.dumps(facts))


def fits(folder):
    """Whole fits: on two devices at once, on one device chunk after chunk."""
    import tfperf
    from tests.make_pack import make_card
    from tfperf.workloads.pdf.report import html

    html.render_html = lambda *_: ""  # seconds each
    card = make_card(folder, replicas=8, steps=20)
    for name, how in (("devices", ["engine.devices=2"]), ("chunks", ["engine.devices=1", "engine.chunk=4"])):
        tfperf.fit(card, folder / name, overrides=["train.stopping.patience=50", "engine.form=shared", *how])


if __name__ == "__main__":
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * CPUS)
    for one in sys.argv[2:]:
        (own := Path(sys.argv[1]) / one).mkdir()
        globals()[one](own)
