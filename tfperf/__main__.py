"""`tfperf`, and `python -m tfperf`."""

from tfperf.signals import Signals


def main() -> None:
    """Carry out a command line; signals are listened to before anything that takes long is imported."""
    with Signals().listening(strict=True):
        from tfperf.cli import main as carry_out

        carry_out()


if __name__ == "__main__":
    main()
