"""The compiled training loop, stopping, optimizers, checkpoints."""
