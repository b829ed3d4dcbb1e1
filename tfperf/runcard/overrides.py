"""`--set key.sub=value`: one value of the card replaced, or added, before it is validated."""

from tfperf.runcard.tree import Found, Node, read_tree

AFTER_ALL_LINES = 10**9


def apply(root: Node, override: str, number: int) -> list[Found]:
    """Put the override into the tree; returns its faults, at the place `--set key.sub=value`.

    `number` counts the overrides of a command. Parts of the key are keys, or indices of lists counted from 0.
    """
    rank, place = AFTER_ALL_LINES + number, "--set " + override.encode("utf-8", "replace").decode()
    key, equals, text = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        return [Found(rank, place, "must be key.sub=value")]
    node, found = read_tree(text, lambda _: (rank, place), tuple(parts))
    if found:
        return found
    if node is None:
        node = Node(rank, place, None)
    elif isinstance(node.value, dict | list) and text.lstrip()[0] not in "[{":
        return [
            Found(rank, place, f"{key}: got a block of YAML; a value is one word or number, [a, b] or {{key: value}}")
        ]
    return put(root, parts, node)


def put(root: Node, parts: list[str], value: Node) -> list[Found]:
    """Replace the value at the path, and return what is wrong; mappings on the way that are absent or null are made."""
    parent = root
    for depth, part in enumerate(parts[:-1], 1):
        child = parent.child(part)
        if child is None or child.value is None:
            child = Node(value.rank, value.place, {})
            if fault := _insert(parent, parts[:depth], child):
                return fault
        parent = child
    return _insert(parent, parts, value)


def _insert(parent: Node, path: list[str], value: Node) -> list[Found]:
    if isinstance(parent.value, dict):
        parent.value[path[-1]] = value
    elif isinstance(parent.value, list) and parent.child(path[-1]) is not None:
        parent.value[int(path[-1])] = value
    else:
        what = f"a list of {len(parent.value)}, counted from 0" if isinstance(parent.value, list) else parent.given()
        text = f"{'.'.join(path)}: no such entry; {'.'.join(path[:-1])} is {what}"
        return [Found(value.rank, value.place, text)]
    return []
