"""R independent dense layers as one."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf


class StackedDense(keras.layers.Layer):
    """R independent dense layers as one batched matmul.

    R small matmuls leave a device idle between launches; one stacked kernel does the same arithmetic at once. The nodes
    are the last axis: on a CPU that is twice as fast as units last, forward and backward.

    Shapes: x (R, I, X), or (I, X) shared by all replicas, dimensionless; kernel (R, I, O); bias (R, O, 1);
    returns (R, O, X). Source: Glorot & Bengio 2010, eq. 16, with fan-in I: counting R as receptive field would shrink
    the kernel by sqrt(R).
    """

    def __init__(self, replicas: int, units: int, activation: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.replicas, self.units = replicas, units
        self.activation = keras.activations.get(activation)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create kernel and bias, zero until `initialize`."""
        inputs = input_shape[-2]
        self.kernel = self.add_weight(name="kernel", shape=(self.replicas, inputs, self.units), initializer="zeros")
        self.bias = self.add_weight(name="bias", shape=(self.replicas, self.units, 1), initializer="zeros")

    def initialize(self, initializer: str, seeds: list[int]) -> None:
        """Draw each replica's kernel as a single network's, from its own seed; biases are zero."""
        factory = type(keras.initializers.get(initializer))
        shape = tuple(self.kernel.shape[1:])
        kernels = [factory(seed=seed)(shape, dtype="float32") for seed in seeds]
        self.kernel.assign(np.stack([keras.ops.convert_to_numpy(k) for k in kernels]))
        self.bias.assign(tf.zeros_like(self.bias))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Activation(kernel^T x + bias)."""
        if len(x.shape) == 2:
            inputs, units = x.shape[0], self.replicas * self.units
            flat = tf.reshape(tf.transpose(self.kernel, [0, 2, 1]), [units, inputs])
            product = tf.reshape(tf.matmul(flat, x), [self.replicas, self.units, x.shape[1]])
        else:
            product = tf.matmul(self.kernel, x, transpose_a=True)
        return self.activation(product + self.bias)
