"""The replica engine: stacks trained in compiled calls, with stopping, best weights, retirement, choices, checkpoints.

A workload derives its stack from `stack.Stack`, hands what makes it (`stack.StackFactory`) to `ensemble.Ensemble`, and
trains that with `trainer.Trainer`. The rest serves these three.
"""
