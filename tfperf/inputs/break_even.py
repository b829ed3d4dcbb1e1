"""When data that are prepared once and stored have paid for their preparation."""


def find_break_even(
    preparation_seconds: float, step_seconds: float, input_seconds: float, stored_seconds: float, batches_per_epoch: int
) -> float | None:
    """Epochs after which storing has paid: a batch takes as long as the slower of its step and its input.

    preparation_seconds: of everything that is stored, once. step_seconds, input_seconds, stored_seconds: of a batch,
    for the step alone, for the input as it is, and for what is left of it on stored elements. None: never, since an
    epoch becomes no shorter. It holds where the step takes no cores from the input, as on a GPU; where they share
    cores, measured epochs tell (`find_measured_break_even`).

    Raises: ValueError for times below zero, and for an epoch without a batch.

    >>> find_break_even(90.0, step_seconds=0.02, input_seconds=0.10, stored_seconds=0.04, batches_per_epoch=500)
    3.0
    >>> find_break_even(90.0, step_seconds=0.20, input_seconds=0.10, stored_seconds=0.04, batches_per_epoch=500)
    """
    if min(step_seconds, input_seconds, stored_seconds) < 0 or batches_per_epoch < 1:
        raise ValueError("times of a batch are at least 0, and an epoch has at least 1 batch")
    now, stored = (max(step_seconds, one) * batches_per_epoch for one in (input_seconds, stored_seconds))
    return find_measured_break_even(preparation_seconds, now, stored)


def find_measured_break_even(
    preparation_seconds: float, epoch_seconds: float, stored_epoch_seconds: float
) -> float | None:
    """The same from epochs that were measured, as they are and from stored elements; None: never.

    Raises: ValueError for times below zero.

    >>> find_measured_break_even(90.0, epoch_seconds=50.0, stored_epoch_seconds=20.0)
    3.0
    >>> find_measured_break_even(90.0, epoch_seconds=20.0, stored_epoch_seconds=20.0)
    """
    if min(preparation_seconds, epoch_seconds, stored_epoch_seconds) < 0:
        raise ValueError("times are at least 0")
    gain = epoch_seconds - stored_epoch_seconds
    return preparation_seconds / gain if gain > 0 else None
