"""When data that are prepared once and stored have paid for their preparation."""


def find_break_even(preparation_seconds: float, epoch_seconds: float, stored_epoch_seconds: float) -> float | None:
    """Epochs after which storing has paid; None: never, since an epoch becomes no shorter.

    preparation_seconds: of everything that is stored, once. epoch_seconds, stored_epoch_seconds: of an epoch with its
    steps, as it is and from stored elements. Raises: ValueError for times below zero.

    >>> find_break_even(90.0, epoch_seconds=50.0, stored_epoch_seconds=20.0)
    3.0
    >>> find_break_even(90.0, epoch_seconds=20.0, stored_epoch_seconds=20.0)
    """
    if min(preparation_seconds, epoch_seconds, stored_epoch_seconds) < 0:
        raise ValueError("times are at least 0")
    gain = epoch_seconds - stored_epoch_seconds
    return preparation_seconds / gain if gain > 0 else None
