"""What a card amounts to, before anything is trained: `tfperf check`."""

from dataclasses import dataclass

from tfperf.console.stages import ShowStage, show_nothing
from tfperf.measure.environment import read_memory_bytes
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.chunks import choose_chunk_size, count_parameters, estimate_footprint
from tfperf.workloads.pdf.inputs import read_inputs
from tfperf.workloads.pdf.operators.problem import build_problem
from tfperf.workloads.replica_parts import split


@dataclass(frozen=True, kw_only=True)
class RunSizes:
    """Sizes of a run."""

    replicas: int
    chunks: int  # trained one after the other
    datasets: int
    points: int
    training_points: float  # mean over replicas
    positivity_points: int
    parameters: int  # trained, one replica
    steps: int
    memory_bytes: float  # predicted peak
    machine_bytes: int  # memory of this machine

    def describe(self) -> list[str]:
        """The sizes for people."""
        return [
            f"replicas    {self.replicas}" + (f" in {self.chunks} chunks" if self.chunks > 1 else ""),
            f"datasets    {self.datasets}",
            f"points      {self.points} ({self.training_points:.0f} train); positivity: {self.positivity_points}",
            f"parameters  {self.parameters} per replica",
            f"steps       at most {self.steps}",
            f"memory      {self.memory_bytes / 1e9:.1f} GB predicted peak{self._describe_excess()}",
        ]

    def _describe_excess(self) -> str:
        """A card is checked on one machine and fitted on another: too much for this one is no fault."""
        if self.memory_bytes <= self.machine_bytes:
            return ""
        return f"; this machine has {self.machine_bytes / 1e9:.1f} GB: the fit would fail here"


def estimate_sizes(card: Card, show_stage: ShowStage = show_nothing) -> RunSizes:
    """Read the data of a card and tell the sizes; CardError or PackError where the data do not fit the card."""
    show_stage("reading data")
    inputs = read_inputs(card)
    show_stage("building the problem")
    one = build_problem(card, inputs.selection, card.replicas[:1], inputs.t0_pdf, inputs.law)
    show_stage("predicting the memory")
    total = len(card.replicas)
    chunk = min(total, choose_chunk_size(card, lambda: one, total))
    return RunSizes(
        replicas=total, chunks=len(split(total, chunk)), datasets=len(one.datasets), points=len(one.central),
        training_points=float(one.training.sum()),
        positivity_points=sum(rows.stop - rows.start for rows in one.observables.positive),
        parameters=count_parameters(card), steps=card.train.steps,
        memory_bytes=estimate_footprint(card, one).estimate_peak_bytes(chunk, total), machine_bytes=read_memory_bytes(),
    )  # fmt: skip
