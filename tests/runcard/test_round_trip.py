"""The resolved card, written and loaded again, is the same card."""

from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runcard.cards import CARDS, PACK, ROOT, SHORT, write
from tfperf.runcard.dump import dump_card, to_tree
from tfperf.runcard.optimizers import OWN
from tfperf.runcard.types import parse_replica_ids
from tfperf.workloads.pdf.card import (
    FITTED,
    Card,
    Closure,
    Covariance,
    Cuts,
    Data,
    Engine,
    Exponents,
    Integrability,
    Model,
    Optimizer,
    Positivity,
    SetChoice,
    Stopping,
    SumRules,
    Train,
)  # fmt: skip
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.example import format_example_card

TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=100)
POSITIVE = st.floats(1e-9, 1e6)
SEED = st.integers(0, 2**32 - 1)
STEPS = st.integers(1000, 100_000_000)


def growing(cls, **fields):
    pairs = st.tuples(POSITIVE, POSITIVE).map(sorted)
    return st.tuples(pairs, st.fixed_dictionaries(fields)).map(lambda t: cls(initial=t[0][0], final=t[0][1], **t[1]))


def ranges(low, high):
    pair = st.tuples(st.floats(low, high), st.floats(low, high))
    return pair.map(lambda p: (min(p), max(p)))


def networks():
    activation = st.sampled_from(["tanh", "relu", "linear", "swish"])
    unit = st.tuples(st.integers(1, 4096), activation)
    exponents = st.builds(Exponents, alpha=ranges(-2, 0.99), beta=ranges(0, 9))
    return st.lists(unit, max_size=4).flatmap(
        lambda hidden: st.builds(
            Model, layers=st.just((*(u for u, _ in hidden), 8)),
            activations=st.just((*(a for _, a in hidden), "linear")),
            exponents=st.dictionaries(st.sampled_from(FITTED), exponents),
            trainable_exponents=st.booleans(),
            sum_rules=st.builds(SumRules, nodes=st.integers(4, 512), tail=st.sampled_from(["none", "analytic"])),
        )
    )  # fmt: skip


OPTIMIZERS = st.sampled_from(sorted(OWN)).flatmap(
    lambda name: st.builds(
        Optimizer, name=st.just(name), learning_rate=POSITIVE, weight_decay=st.none() | POSITIVE,
        **({"clipnorm": st.none() | POSITIVE} if name == "Nadam" else {"clipvalue": st.none() | POSITIVE}),
    )
)  # fmt: skip
SETS = st.builds(
    SetChoice, name=TEXT, weight=POSITIVE, training_fraction=st.none() | st.floats(0.1, 1),
    cuts=st.none() | st.builds(Cuts, x_min=st.floats(0.1, 0.4), x_max=st.floats(0.5, 1), w2_min=POSITIVE),
)  # fmt: skip
CHOSEN = st.one_of(
    st.fixed_dictionaries({"sets": st.lists(SETS, unique_by=lambda s: s.name).map(tuple)}),
    st.fixed_dictionaries({"exclude": st.lists(TEXT, unique=True).map(tuple)}),
)
REAL = (ROOT / "data/dis_nlo/dis_nlo.h5").resolve()
CLOSURE = st.just(Closure()) | st.builds(Closure, level=st.just(2), noise=SEED)
# a closure test takes its t0 predictions from its law
TRUTH = st.tuples(st.none(), st.sampled_from(["pack", "none", "fit", str(ROOT)])) | st.tuples(
    CLOSURE, st.sampled_from(["pack", "none"])
)
CARD = TRUTH.flatmap(lambda truth: st.builds(
    Card, title=TEXT, seed=SEED,
    replicas=(st.integers(1, 99) | st.integers(2, 99).map(lambda n: f"{n}-{n + 7}")).map(parse_replica_ids),
    data=CHOSEN.map(lambda chosen: Data(pack=REAL, t0=truth[1], **chosen)),
    covariance=st.builds(Covariance, extra=st.sampled_from([None, REAL])),
    closure=st.just(truth[0]),
    model=networks(),
    positivity=growing(
        Positivity, sets=st.sampled_from(["all", "none"]) | st.lists(TEXT, min_size=1, unique=True).map(tuple),
        threshold=POSITIVE,
    ),
    integrability=growing(Integrability, nodes=st.integers(0, 10)),
    train=st.builds(
        Train, steps=STEPS, steps_per_call=st.just("auto") | st.integers(1, 1000), optimizer=OPTIMIZERS,
        stopping=st.builds(Stopping, patience=st.none() | STEPS),
    ),
    engine=st.builds(
        Engine, precision=st.sampled_from(["float32", "float64"]), xla=st.sampled_from(["auto", True, False]),
        threads=st.just("auto") | st.integers(1, 64), form=st.sampled_from(["auto", "shared", "folded"]),
        tolerance=st.floats(0, 1), check_every=STEPS, on_violation=st.sampled_from(["raise_rank", "fail"]),
    ),
))  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(card=CARD)
def test_any_card_survives(card, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "card.yaml"
    path.write_text(dump_card(card), encoding="utf-8")
    again = load_card(path)
    assert again == card
    assert to_tree(again) == to_tree(card)


@pytest.mark.parametrize("name", CARDS)
def test_shipped_cards_survive_in_another_folder(name, tmp_path):
    card = load_card(write(tmp_path, CARDS[name]))
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "card.yaml").write_text(dump_card(card))
    assert load_card(other / "card.yaml") == card


@pytest.mark.parametrize(
    ("given", "kept"), [("100", 100), ("101-200", "101-200"), ("1-7", 7), ("5-5", "5-5"), ("1", 1)]
)
def test_replicas_are_ids_and_go_back_to_their_shortest_form(given, kept, tmp_path):
    card = load_card(write(tmp_path, SHORT), [f"replicas={given}"])
    first, _, last = given.rpartition("-")
    assert card.replicas == tuple(range(int(first or 1), int(last) + 1))
    assert to_tree(card)["replicas"] == kept


def test_the_resolved_card_shows_every_default(tmp_path):
    tree = yaml.safe_load(dump_card(load_card(write(tmp_path, SHORT))))
    assert list(tree["model"]["exponents"]) == list(FITTED)
    wanted = {"sets": "all", "denominators": True, "initial": 100.0, "final": 1e6, "threshold": 1e-6}
    assert tree["positivity"] == wanted
    assert tree["train"]["optimizer"]["clipnorm"] == 6.073e-6
    assert tree["closure"] is None


def test_a_flavour_left_out_keeps_its_default(tmp_path):
    card = load_card(write(tmp_path, SHORT), ["model.exponents={g: {alpha: [0.5, 0.6], beta: [1, 2]}}"])
    assert list(card.model.exponents) == list(FITTED)
    assert card.model.exponents["g"] == Exponents(alpha=(0.5, 0.6), beta=(1.0, 2.0))
    assert card.model.exponents["v"] == Model().exponents["v"]


def test_the_example_shows_every_block_with_a_comment_for_each_key(tmp_path):
    text = format_example_card(PACK)
    card = load_card(write(tmp_path, text))
    blocks = [
        line.removeprefix("# ").split(":")[0]
        for line in text.splitlines()
        if line[:1].isalpha() or line.startswith(("# closure:", "# profile:", "# sweep:", "# memory:"))
    ]
    assert blocks == list(to_tree(card))
    lines = text.splitlines()
    for i, line in enumerate(lines[2:], 2):
        if line.strip() and not line.lstrip().startswith("#") and not line.startswith("    "):
            assert "  # " in line or lines[i - 1].lstrip().startswith("# "), line
    assert max(map(len, lines)) <= 118
    uncommented = (
        text.replace("# closure", "closure")
        .replace("#   level", "  level")
        .replace("#   law", "  law")
        .replace("#   noise", "  noise")
    )
    assert load_card(write(tmp_path, uncommented)).closure == Closure()


def test_the_example_holds_the_defaults(tmp_path):
    card = load_card(write(tmp_path, format_example_card(PACK)))
    short = f"title: An example\nreplicas: 100\ndata: {{pack: {PACK}}}\ntrain: {{steps: {card.train.steps}}}\n"
    assert load_card(write(tmp_path, short, "short.yaml")) == card


def test_the_example_quotes_a_difficult_path(tmp_path):
    pack = tmp_path / "a: #b, 'c'.h5"
    pack.touch()
    card = load_card(write(tmp_path, format_example_card(Path("..") / pack.name)))
    assert card.data.pack == pack.resolve()
