"""Names of losses and metrics in files."""


def name_figure(key: str) -> str:
    """The name of a loss or metric in files, which have names of their own for a place in a folder.

    >>> name_figure("deep/er"), name_figure("."), name_figure("loss")
    ('deep:er', '.:', 'loss')
    """
    name = key.replace("/", ":")
    return name if name.strip(".") else f"{name}:"
