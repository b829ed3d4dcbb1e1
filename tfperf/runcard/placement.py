"""A card's `placement`: on which devices variables, optimizer slots and updates live."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from tfperf.runcard.faults import Fault, refuse
from tfperf.runcard.types import STRICT

ONE = r"^device:(0|[1-9][0-9]?)$"
SingleDevice = Annotated[str, Field(pattern=ONE, description="one device by its number, as device:0")]
VariablePlacement = Literal["host", "device", "mirrored"] | SingleDevice
SlotPlacement = Literal["with_variable", "host", "device"] | SingleDevice
EngineName = Literal["tower", "mirrored", "central", "multiworker"]
Merge = Literal["ring", "hierarchical", "reduce_to_one", "host"]
MOST = 8
TF_CONFIG = "TF_CONFIG"  # of the environment: lists the workers of engine multiworker
# after lcy-seso/dl_framework, test_parallel_tensorflow, on 1-8 GPUs; variables, embeddings, updates
PRESETS: dict[str, tuple[VariablePlacement, VariablePlacement, SlotPlacement]] = {
    "Exp1": ("host", "host", "device"),
    "Exp2": ("host", "host", "host"),
    "Exp3": ("device", "host", "with_variable"),
    "Exp4": ("device", "device", "with_variable"),
    "Exp5": ("device", "device", "with_variable"),
}
PRESET_KEYS = ("variables", "embeddings", "updates")
FIXED_LENGTH = "Exp5"  # the preset that is Exp4 on data of fixed length


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Placement:
    """Where a model's parts live, and which engine moves them; none of this changes what is computed."""

    preset: Literal["Exp1", "Exp2", "Exp3", "Exp4", "Exp5"] | None = Field(
        default=None,
        description="variables, embeddings and updates at once: Exp1 host, host, device; Exp2 all on the host; Exp3 "
        "device, host, with_variable; Exp4 all on the device; Exp5 as Exp4, with data of fixed length",
    )
    variables: VariablePlacement | None = Field(
        default=None,
        description="all but the embeddings: host; device: whole variables spread over the devices by size; device:K; "
        "mirrored: a copy on each; null: the preset's, else device, or what the engine asks for",
    )
    embeddings: VariablePlacement | None = Field(
        default=None, description="the same for the embedding tables; null: the preset's, else as variables"
    )
    slots: SlotPlacement = Field(default="with_variable", description="the optimizer's slots")
    updates: SlotPlacement | None = Field(
        default=None,
        description="where the update's arithmetic runs; reads and the final assignment run where the variable is; "
        "null: the preset's, else with_variable",
    )
    devices: Literal["all"] | Annotated[int, Field(ge=1, le=MOST)] = Field(
        default=1, description="GPUs, or without one logical CPUs beside the host's; all: every GPU"
    )
    workers: Annotated[int, Field(ge=1, le=MOST)] | None = Field(
        default=None, description="processes of engine multiworker that divide the devices evenly; null: one a device"
    )
    merge: Merge = Field(
        default="reduce_to_one",
        description="how gradients are summed: ring: NCCL on GPUs, TensorFlow's ring collective on CPUs; hierarchical; "
        "on one device; on the host",
    )
    engine: EngineName = Field(
        default="tower",
        description="tower: tfperf's own, one compiled graph for all devices; mirrored, central, multiworker: "
        "TensorFlow's MirroredStrategy, CentralStorageStrategy, MultiWorkerMirroredStrategy",
    )

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse(self._check_keys())
        return self

    def resolve(self) -> "Placement":
        """The same with nothing left open: preset and nulls replaced by what they stand for.

        >>> found = Placement(preset="Exp1", devices=2).resolve()
        >>> found.variables, found.embeddings, found.slots, found.updates
        ('host', 'host', 'with_variable', 'device')
        """
        variables, embeddings, _, updates = self.places
        return replace(self, preset=None, variables=variables, embeddings=embeddings, updates=updates)

    @property
    def local_workers(self) -> int:
        """Processes of engine multiworker where all run on this machine."""
        if self.workers is not None:
            return self.workers
        return 1 if self.devices == "all" else self.devices

    @property
    def places(self) -> tuple[VariablePlacement, VariablePlacement, SlotPlacement, SlotPlacement]:
        """Variables, embeddings, slots and updates, whatever they are left to."""
        if self.preset is not None:
            variables, embeddings, updates = PRESETS[self.preset]
        else:
            variables = self.variables or _OWN[self.engine]
            embeddings, updates = self.embeddings or variables, self.updates or "with_variable"
        return variables, embeddings, self.slots, updates

    def _check_keys(self) -> Iterator[Fault]:
        if self.preset is not None:
            for key, value in zip(PRESET_KEYS, PRESETS[self.preset], strict=True):
                given = getattr(self, key)
                if given is not None and given != value:
                    yield Fault(key, given, f"must be left out beside preset {self.preset}, which sets it to {value}")
            if self.engine != "tower":
                yield Fault("engine", self.engine, f"must be tower for preset {self.preset}")
        elif self.engine != "tower":
            yield from self._check_strategy()
        if self.workers is not None and self.engine != "multiworker":
            yield Fault("workers", self.workers, f"must be null with engine {self.engine}, which is one process")
        if self.devices != "all":
            yield from self.check_devices(self.devices)
        if self.preset is None and self.engine == "tower":
            yield from self._check_mirrored()

    def _check_strategy(self) -> Iterator[Fault]:
        """What TensorFlow's own strategies leave no choice in."""
        own = _OWN[self.engine]
        for key in ("variables", "embeddings"):
            if getattr(self, key) not in (None, own):
                yield Fault(key, getattr(self, key), f"must be {own} with engine {self.engine}")
        for key in ("slots", "updates"):
            if getattr(self, key) not in (None, "with_variable"):
                yield Fault(key, getattr(self, key), f"must be with_variable with engine {self.engine}")
        if self.engine == "central" and self.merge != "host":
            yield Fault("merge", self.merge, "must be host with engine central, where the variables are")
        if self.engine == "multiworker" and self.merge != "ring":
            yield Fault("merge", self.merge, "must be ring with engine multiworker, whose workers share no memory")

    def check_devices(self, devices: int) -> Iterator[Fault]:
        """What cannot be done with so many devices; with `all` they are known only where the card runs."""
        if self.workers is not None and devices % self.workers:
            yield Fault("workers", self.workers, f"must divide the devices evenly, which are {devices}")
        for key in ("variables", "embeddings", "slots", "updates"):
            match = re.match(ONE, getattr(self, key) or "")
            if match and int(match[1]) >= devices:
                yield Fault(key, getattr(self, key), f"must be below device:{devices}: there are {devices}, from 0 on")
        if self.merge == "hierarchical" and devices > 1 and devices % 2:
            why = "with an odd number of devices TensorFlow's hierarchical copy loses a gradient"
            yield Fault("merge", self.merge, f"{why}; devices are {devices}")

    def _check_mirrored(self) -> Iterator[Fault]:
        variables, embeddings, slots, updates = self.places
        if "mirrored" in (variables, embeddings):
            for key, value in (("slots", slots), ("updates", updates)):
                if value != "with_variable":
                    why = "each copy of a mirrored variable is updated on its own device, with slots of its own"
                    yield Fault(key, value, f"must be with_variable: {why}")


_OWN: dict[EngineName, VariablePlacement] = {
    "tower": "device", "mirrored": "mirrored", "central": "host", "multiworker": "mirrored"
}  # fmt: skip
