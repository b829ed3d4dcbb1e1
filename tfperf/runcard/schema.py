"""What cards may say: their JSON schema, and what it allows in words."""

import re
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
T = TypeVar("T")


@cache
def get_adapter(card_type: Any) -> TypeAdapter[Any]:
    """The validator of a type of cards, made once."""
    return TypeAdapter(card_type)


class Grammar(Generic[T]):
    """What a card of one type may say."""

    def __init__(self, card_type: type[T]) -> None:
        self.card_type = card_type

    @cached_property
    def adapter(self) -> TypeAdapter[T]:
        """The validator of such cards."""
        card: Any = self.card_type
        return get_adapter(card)

    @cached_property
    def json_schema(self) -> Schema:
        """JSON schema (draft 2020-12) of what a card may look like; checks between keys are the loader's."""
        return {"$schema": DIALECT, **self.adapter.json_schema(), "title": "tfperf runcard"}

    @cached_property
    def _whole(self) -> Schema:
        whole: Schema = _inline_references(self.json_schema, self.json_schema["$defs"])
        return whole

    def get_schema(self, path: Sequence[object]) -> Schema:
        """The schema of the value at a path of keys and indices, references put in; empty where no such key is."""
        schema: Schema | None = self._whole
        for key in path:
            schema = None if schema is None else _find_child(schema, key)
        return schema or {}

    def list_keys(self, path: Sequence[object]) -> list[str]:
        """The keys that the mapping at a path may have."""
        keys: list[str] = []
        for branch in list_alternatives(self.get_schema(path)):
            keys += [*branch.get("properties", ()), *branch.get("propertyNames", {}).get("enum", ())]
        return keys

    def describe_keys(self, path: Sequence[object]) -> str:
        """What the keys of a table must be; empty for mappings of named keys."""
        branches = list_alternatives(self.get_schema(path))
        return next((text for branch in branches if (text := branch.get("propertyNames", {}).get("description"))), "")

    def has_free_keys(self, path: Sequence[object]) -> bool:
        """Whether the mapping at a path is a table of like values rather than one of named keys."""
        return any("enum" in branch.get("propertyNames", ()) for branch in list_alternatives(self.get_schema(path)))


def _inline_references(value: Any, definitions: Schema) -> Any:
    """A schema with its references replaced by what they refer to."""
    if isinstance(value, list):
        return [_inline_references(entry, definitions) for entry in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return _inline_references(definitions[value["$ref"].rsplit("/", 1)[-1]], definitions)
    return {key: _inline_references(inner, definitions) for key, inner in value.items() if key != "$defs"}


def list_alternatives(schema: Schema) -> Iterator[Schema]:
    """The schema's `anyOf` branches, or itself."""
    if "anyOf" not in schema:
        yield schema
    for branch in schema.get("anyOf", ()):
        yield from list_alternatives(branch)


def _find_child(schema: Schema, key: object) -> Schema | None:
    """The schema of a key or index, taken from the branch that has it."""
    for branch in list_alternatives(schema):
        if isinstance(key, int) and branch.get("type") == "array":
            first = branch.get("prefixItems", ())
            found = first[key] if key < len(first) else branch.get("items")
        else:
            named = {k: v for k, v in branch.get("patternProperties", {}).items() if re.search(k, str(key))}
            found = branch.get("properties", {}).get(
                key, next(iter(named.values()), branch.get("additionalProperties"))
            )
        if isinstance(found, dict):
            return found
    return None


def list_choices(schema: Schema) -> list[str]:
    """The words that a value may be, true and false included."""
    words: list[str] = []
    for branch in list_alternatives(schema):
        words += [str(w) for w in branch.get("enum", [branch["const"]] if "const" in branch else [])]
        words += ["true", "false"] if branch.get("type") == "boolean" else []
    return words


def _describe_limits(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" from {_format_number(low)} to {_format_number(high)}"
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    words = {"at least": low, "above": above, "at most": high, "below": below}
    limits = [f"{word} {_format_number(limit)}" for word, limit in words.items() if limit is not None]
    return " " + " and ".join(limits) if limits else ""


def can_hold(schema: Schema, number: int) -> bool:
    """Whether a whole number is within the limits of a branch for such."""
    return any(
        branch.get("minimum", number) <= number <= branch.get("maximum", number)
        for branch in list_alternatives(schema)
        if branch.get("type") == "integer"
    )


def _format_number(limit: float) -> str:
    return f"{limit:g}" if isinstance(limit, float) else str(limit)


def _describe_branch(schema: Schema) -> str:
    """One branch without fixed words, described."""
    kind = schema.get("type")
    if kind == "array" and "prefixItems" in schema:
        return "a pair [low, high] of numbers"
    if kind == "array":
        return _describe_list(schema)
    if "pattern" in schema:
        return str(schema["description"])
    names = {"integer": "a whole number", "number": "a number", "string": "text", "null": "null"}
    if kind == "object":
        keys = [*schema.get("properties", ()), *schema.get("propertyNames", {}).get("enum", ())]
        return f"a mapping with keys out of {', '.join(keys)}" if keys else _describe_table(schema)
    return names.get(str(kind), "a value") + _describe_limits(schema)


def _describe_table(schema: Schema) -> str:
    """A mapping whose keys are free."""
    least, most = schema.get("minProperties", 0), schema.get("maxProperties")
    return "a mapping" if most is None else f"a mapping of {least} to {most} entries"


def _describe_list(schema: Schema) -> str:
    entry, least = describe_schema(schema["items"]), schema.get("minItems", 0)
    if entry == "text":
        return f"a list of {least} texts" if least and least == schema.get("maxItems") else "a list of text"
    if least or entry.startswith("a mapping"):
        return f"a list of {least} to {schema['maxItems']} entries"
    return f"a list, each entry {entry}"


def describe_schema(schema: Schema) -> str:
    """What a value may be: auto, true or false."""
    kinds = [_describe_branch(b) for b in list_alternatives(schema) if not list_choices(b)]
    words = [*list_choices(schema), *(k for k in kinds if k != "null")]
    either = " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
    return f"{either}, or null" if "null" in kinds else either


def describe_allowed(schema: Schema) -> str:
    """The part of a message that says what is allowed."""
    fixed = list_choices(schema)
    only_words = all(list_choices(b) for b in list_alternatives(schema))
    return f"allowed: {', '.join(fixed)}" if only_words and fixed else f"must be {describe_schema(schema)}"
