"""The ratios that the README quotes, each a command: `python -m benchmarks list`, `python -m benchmarks run NAME`."""
