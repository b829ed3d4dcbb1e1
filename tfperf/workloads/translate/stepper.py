"""The steps of a training on demand, for profiles."""

from tfperf.place.devices import make_devices
from tfperf.runcard.profile import Profile
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.texts import read_sentences
from tfperf.workloads.translate.trainable import build_engine
from tfperf.workloads.translate.window import Window, count_whole_steps, plan_window


class TranslationStepper:
    """The first steps of a training, as many as are to be recorded, over and over again."""

    loops = 1

    def __init__(self, card: TranslationCard) -> None:
        """Raises: UserError for faults of the card's files, and of the devices that it asks for."""
        devices, sentences = make_devices(card.placement), read_sentences(card)
        split, recorded = sentences.encoded.training, (card.profile or Profile()).steps
        self.steps_per_call, self.steps = card.train.steps_per_call, card.train.steps
        self.optimizers = (card.train.optimizer.name.lower(),)
        plan = plan_window(card, split, len(devices), count_whole_steps(recorded, self.steps_per_call))
        self.window = Window(build_engine(card, sentences.rows, devices), split, plan, self.steps_per_call)
        self._last: list[float] = []

    def warm_up(self) -> None:
        """Take each of the steps once: batches of every length are compiled then."""
        self.window.run()

    def call(self, steps: int) -> int:
        """The next steps."""
        self._last = self.window.call(steps).tolist()
        return len(self._last)

    def list_losses(self) -> list[float]:
        """Of the last call's steps."""
        return self._last

    def close(self) -> None:
        """Let go of engine and batches."""
        del self.window
