"""Each one-edit mutation of each card is refused with its line and its key."""

import jsonschema
import pytest
import yaml

from tests.runcard.cards import CARDS, faults, write
from tests.runcard.mutations import Mutation, mutations, values
from tfperf.runcard.tree import parse_tree
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.kind import KIND

ALL = [
    pytest.param(m, id=f"{name}-{m.kind}-{m.key}-{i}") for name in CARDS for i, m in enumerate(mutations(CARDS[name]))
]
SCHEMA = jsonschema.Draft202012Validator(KIND.grammar.json_schema)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("mutations")


def plain(text):
    root, found = parse_tree(text, lambda line: (line, ""))
    assert not found and root is not None
    return root.to_plain()


@pytest.mark.parametrize("name", CARDS)
def test_cards_load_and_fit_the_schema(name, folder):
    load_card(write(folder, CARDS[name]))
    SCHEMA.validate(plain(CARDS[name]))


@pytest.mark.parametrize("mutation", ALL)
def test_mutation_is_refused_with_its_line(mutation: Mutation, folder):
    found = faults(folder, mutation.text)
    at = f"{mutation.line}: {mutation.key}"
    assert any(f.startswith((f"{at}: ", f"{at}.")) for f in found), (at, found)
    if mutation.kind == "renamed":
        assert any(f.startswith(f"{at}: unknown key") for f in found)
    if mutation.kind == "doubled":
        assert found == [
            f"{at}: given twice, first in line {found[0].rsplit(';')[0].split()[-1]}; a key may be given once"
        ]
    if mutation.shape:
        assert not SCHEMA.is_valid(plain(mutation.text))


def any_value_is_allowed(name: str) -> bool:
    """Names of sets are checked against the pack, not here; a title is free; true and false are both allowed."""
    return name.rsplit(".", 1)[-1] in (
        "title",
        "name",
        "trainable_exponents",
        "use_ema",
        "centered",
        "tf32",
        "sample_extra",
        "denominators",
    ) or name.startswith(("data.exclude.", "positivity.sets."))


@pytest.mark.parametrize("name", CARDS)
def test_each_value_is_mutated(name):
    """Each key renamed and doubled, each value retyped, each number and choice put out of range."""
    made = {(m.kind, m.key) for m in mutations(CARDS[name])}
    for value in values(yaml.compose(CARDS[name], yaml.SafeLoader)):
        assert ("retyped", value.name) in made
        if value.key is not None:
            assert {("renamed", f"{value.name}x"), ("doubled", value.name)} <= made
        if isinstance(value.node, yaml.ScalarNode) and not any_value_is_allowed(value.name):
            pair = value.name.rsplit(".", 1)[0]  # [low, high] is refused as a whole
            assert {("beyond", value.name), ("beyond", pair)} & made, value.name
