"""All that a training of replicas is made of: their data, the model that they share, where each of them begins."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np

from tfperf.arrays import AnyArray, ArraysByName, Indices
from tfperf.console.stages import ShowStage
from tfperf.errors import CardError
from tfperf.sources.code import CodeReference, call_function
from tfperf.sources.given import ORIGIN, find_object, give_objects, is_given
from tfperf.workloads.keras.card import KerasCard, MaskSource
from tfperf.workloads.keras.models import digest_model, make_model
from tfperf.workloads.keras.replicas.data import ReplicaData
from tfperf.workloads.keras.replicas.draws import BatchDraw, RowDraw, draw_model_seed, draw_samples, select_samples
from tfperf.workloads.keras.replicas.factory import KerasFactory
from tfperf.workloads.keras.replicas.stream import StreamDraw
from tfperf.workloads.keras.replicas.template import ModelTemplate, refuse_equal_starts
from tfperf.workloads.keras.training import find_code_file

SEED_STATE = "seed_generator_state"  # how Keras names what dropout draws from


@dataclass(frozen=True)
class Members:
    """The replicas of a training, of these numbers and attempts."""

    card: KerasCard
    data: ReplicaData
    ids: Sequence[int]
    attempts: Sequence[int]

    def check_values(self) -> None:
        """Raises: CardError where the card has no values for one of them."""
        for key in ("learning_rate", "loss_weight"):
            self.list_values(key)
        if isinstance(self.card.ensemble.data, MaskSource):
            self._refuse_unknown("ensemble.data", self.card.replicas or ())

    def draw_batches(self) -> Sequence[RowDraw]:
        """What each is trained on. Raises: UserError for masks that do not fit."""
        card, data, shuffle = self.card, self.data, self.card.data.shuffle is not False
        seeds = [draw_model_seed(card.seed, i, attempt) for i, attempt in zip(self.ids, self.attempts, strict=True)]
        if data.window is not None:
            return [StreamDraw(seed, data.window) for seed in seeds]
        return [
            BatchDraw(seed, samples, min(data.batch, len(samples)), shuffle)
            for seed, samples in zip(seeds, self._draw_samples(), strict=True)
        ]

    def _draw_samples(self) -> list[Indices]:
        card, count = self.card, self.data.count
        if not isinstance(card.ensemble.data, MaskSource):
            return [draw_samples(card.seed, i, count, card.ensemble.data) for i in self.ids]
        source, known = card.ensemble.data, card.replicas or ()
        masks = np.asarray(call_function(CodeReference.parse(source.build), source.arguments, "ensemble.data.build"))
        found = dict(zip(known, select_samples(masks, len(known), count, "ensemble.data"), strict=True))
        return [found[i] for i in self.ids]

    def _refuse_unknown(self, key: str, known: Sequence[int]) -> None:
        """CardError for replicas that are added to those of a card that has values for each."""
        if missing := [i for i in self.ids if i not in known]:
            raise CardError(f"{key}: has values for replicas {known[0]}-{known[-1]}; none for {missing[0]}")

    def build_model(self, number: int, new_session: bool = False) -> keras.Model:
        """The model of one of them, as it would be alone."""
        seed = draw_model_seed(self.card.seed, self.ids[number], self.attempts[number])
        return make_model(replace(self.card, seed=seed), new_session=new_session)

    def keep_builder(self, template: ModelTemplate) -> Callable[[], keras.Model] | None:
        """What builds such a model when the fit is over; None of a file, and where the program has given a model.

        It keeps one batch of the data, of which Keras takes shapes.
        """
        card, batch, count = self.card, template.take_batch(), len(template.of_model)
        origin, _, name = (card.model.build or "").rpartition(":")
        if card.model.build is None or is_given(card.model.build, keras.Model):
            return None
        objects = {name: find_object(name, "model.build")} if origin == ORIGIN else {}

        def build() -> keras.Model:
            with give_objects(objects):
                model = make_model(card, new_session=False)
            if not model.built or len(model.variables) != count:
                model._symbolic_build(data_batch=batch)
            return model

        return build

    def build_template(self, batches: Sequence[Any]) -> ModelTemplate:
        """The model that all share the program of. Raises: UserError."""
        data, window = self.data, self.data.window
        count = len(batches[0].samples) if window is None else window.samples
        return ModelTemplate(
            self.build_model(0, new_session=True), count, data.samples, data.validation, data.batch,
            find_code_file(self.card.model), None if window is None else window.tensors,
        )  # fmt: skip

    def list_starts(self, template: ModelTemplate, show_stage: ShowStage) -> Sequence[ArraysByName]:
        """The values that each begins with. Raises: CardError where they are equal, and may not be."""
        starts: list[dict[str, AnyArray]] = []
        for number in range(len(self.ids)):
            show_stage("building the replicas", number + 1, len(self.ids))
            start = dict(template.read_start(template.build_like(self.build_model(number))))
            starts.append(start)
            if number == 1 and not self.card.ensemble.same_start:
                refuse_equal_starts(starts, template)
        if len(starts) > 1 and template.start_alike(*starts[:2]):
            self._reseed(starts)
        for name, values in self._list_rates(template).items():
            for start, value in zip(starts, values, strict=True):
                start[name] = np.asarray(value, start[name].dtype)
        return starts

    def _reseed(self, starts: Sequence[dict[str, AnyArray]]) -> None:
        """Give each replica draws of its own, where all models come from the same file."""
        for i, attempt, start in zip(self.ids, self.attempts, starts, strict=True):
            seed = draw_model_seed(self.card.seed, i, attempt)
            for number, name in enumerate(sorted(name for name in start if SEED_STATE in name)):
                start[name] = np.array([(seed + number) % 2**31, 0], start[name].dtype)

    def _list_rates(self, template: ModelTemplate) -> dict[str, list[float]]:
        rates = self.list_values("learning_rate")
        if rates is None:
            return {}
        name = template.find_learning_rate()
        if name is None:
            raise CardError("ensemble.learning_rate: the model's optimizer has a schedule, or none of Keras'")
        return {name: rates}

    def list_values(self, key: str) -> list[float] | None:
        """What the card says of each of them under ensemble.key. Raises: CardError."""
        given, known = getattr(self.card.ensemble, key), self.card.replicas or ()
        if not isinstance(given, tuple):
            return None if given is None else [given] * len(self.ids)
        self._refuse_unknown(f"ensemble.{key}", known)
        return [given[known.index(i)] for i in self.ids]

    def build_factory(self, template: ModelTemplate, batches: Sequence[RowDraw], show: ShowStage) -> KerasFactory:
        """What makes their stacks."""
        weights = self.list_values("loss_weight")
        return KerasFactory(template, self.list_starts(template, show), batches, weights, digest_model(template.model))
