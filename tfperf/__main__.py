"""`python -m tfperf`."""

from tfperf.cli import main

main()
