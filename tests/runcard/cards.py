"""Cards that the tests load: written into a folder beside the repository's data."""

from pathlib import Path

from tfperf.errors import CardError
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.example import format_example_card

ROOT = Path(__file__).resolve().parents[2]
PACK = "../data/dis_nlo/dis_nlo.h5"

# every key that pdf_dis.yaml and the example leave at null or out
FULL = f"""\
title: all keys
seed: 7
replicas: 101-200
data:
  pack: {PACK}
  sets:
    - name: SLAC_NC_NOTFIXED_D_EM-F2
      training_fraction: 0.5
      weight: 2.0
      cuts: {{x_min: 1e-3, x_max: 0.9}}
    - name: SLAC_NC_NOTFIXED_P_EM-F2
  cuts:
    q2_min: 3.5
    q2_max: 1E5
    w2_min: 12.5
  t0: none
covariance:
  extra: {PACK}
closure:
  level: 2
  law: toy
  noise: 3
model:
  layers: [12, 8]
  activations: [swish, linear]
  exponents:
    t3: {{alpha: [-0.5, 0.9], beta: [1, 3]}}
positivity:
  sets: [NNPDF_POS_2P24GEV_F2U]
train:
  steps: 200
  steps_per_call: 50
  optimizer:
    name: RMSprop
    learning_rate: 1e-3
    rho: 0.9
    momentum: 0.5
    epsilon: 1e-8
    centered: true
    weight_decay: 1e-4
    global_clipnorm: 1.0
    use_ema: true
    ema_momentum: 0.9
    ema_overwrite_frequency: 10
  stopping: {{patience: 20}}
engine:
  precision: float64
  xla: false
  threads: 2
  form: folded
  tolerance: 1e-4
  check_every: 50
  on_violation: fail
  retire_at: [50, 100]
  chunk: 40
profile:
  steps: 60
  skip: 40
  host_level: 3
"""
SHORT = f"replicas: 3\ndata: {{pack: {PACK}}}\ntrain: {{steps: 10}}\n"
EVERY = {path.name: path.read_text() for path in sorted((ROOT / "runcards").glob("*.yaml"))}
TRANSLATIONS = {name: text for name, text in EVERY.items() if "\nworkload: translate\n" in text}
KERAS = {name: text for name, text in EVERY.items() if "\nworkload: keras\n" in text}
PREDICTIONS = {name: text for name, text in EVERY.items() if "\nworkload: predict\n" in text}
SHIPPED = {name: text for name, text in EVERY.items() if name not in {**TRANSLATIONS, **KERAS, **PREDICTIONS}}
CARDS = {**SHIPPED, "example": format_example_card(PACK), "full": FULL}


def write(folder: Path, text: str | bytes, name: str = "card.yaml") -> Path:
    """A card in a sibling of the repository's data folder."""
    cards, data = folder / "cards", folder / "data"
    cards.mkdir(exist_ok=True)
    if not data.exists():
        data.symlink_to(ROOT / "data")
    path = cards / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def faults(folder: Path, text: str | bytes, *overrides: str) -> list[str]:
    """The faults of a card, its path left out of their places: `4: seed: ...`."""
    path = write(folder, text)
    try:
        load_card(path, overrides)
    except CardError as error:
        return [f.removeprefix(f"{path}:").replace(str(folder), "DIR") for f in error.faults]
    return []
