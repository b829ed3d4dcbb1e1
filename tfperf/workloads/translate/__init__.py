"""An attention LSTM that translates, trained on sentence pairs."""
