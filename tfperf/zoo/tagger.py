"""Which classes, functions, settings and other things a text about programs names: a BiLSTM with a random field on top.

`python -m tfperf.zoo.tagger RUN TEXT -o OUT.tsv` labels a text by the model of a finished run (tagger_command.py).
Source: Lample et al. 2016, "Neural architectures for named entity recognition", with characters as Ma & Hovy 2016 do.
"""

from typing import TYPE_CHECKING, Any

from tfperf.zoo.entities import Part, make_numbering, read_sentences

if TYPE_CHECKING:  # they take seconds, and the command says before that it begins
    import keras

WORDS, CHARACTERS, LENGTH = 4000, 20, 40


def load_samples(
    sentences: str | None = None, part: Part = "train", words: int = WORDS, characters: int = CHARACTERS,
    length: int = LENGTH, batch: int | None = None,
) -> Any:  # fmt: skip
    """Arrays `words` (N, length) and `characters` (N, length, characters) of numbers, and labels (N, length).

    sentences: a file as data/docs_entities/sentences.tsv, which stands for None. part: `train`, or `held` for the
    documents that are not trained on. words, characters: see `Numbering`. length: words after it are cut off.
    batch: return batches of so many sentences as a tf.data.Dataset, each padded to its longest, in a new order for each
    pass. Raises: UserError for a file that is missing or no such table.
    """
    known = make_numbering(read_sentences(sentences, "train"), words, characters)
    found = read_sentences(sentences, part)
    x = known.number_words([one.words for one in found], length)
    y = known.number_labels([one.labels for one in found], length)
    if batch is None:
        return x, y
    import tensorflow as tf

    def shorten(x: dict[str, Any], y: Any) -> Any:
        longest = tf.reduce_max(tf.math.count_nonzero(x["words"], 1))
        return {name: value[:, :longest] for name, value in x.items()}, y[:, :longest]

    return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(y)).batch(batch).map(shorten)


def build_model(
    sentences: str | None = None, words: int = WORDS, characters: int = CHARACTERS, units: int = 64,
    character_units: int = 16, filters: int = 32, recurrent_units: int = 64, dropout: float = 0.5,
    learning_rate: float = 2e-3,
) -> "keras.Model":  # fmt: skip
    """Numbers of words (B, L) and of their characters (B, L, characters) to emissions; it predicts labels (B, L).

    sentences, words, characters: as of `load_samples`. units: of a word, beside the filters that see its characters.
    """
    import keras
    from keras import layers

    from tfperf.zoo.crf import ConditionalRandomField
    from tfperf.zoo.tagger_layers import LabellingModel, NumberedWords, SpelledWords

    known = make_numbering(read_sentences(sentences, "train"), words, characters)
    inputs = {
        "words": keras.Input((None,), dtype="int32", name="words"),
        "characters": keras.Input((None, characters), dtype="int32", name="characters"),
    }
    numbers = NumberedWords(known.words, known.labels, characters)(inputs["words"])
    spelled = SpelledWords(character_units, filters)(inputs["characters"])
    hidden = layers.Concatenate()([layers.Embedding(words, units)(numbers), spelled])
    recurrent = layers.Bidirectional(layers.LSTM(recurrent_units, return_sequences=True))
    hidden = recurrent(layers.Dropout(dropout)(hidden), mask=keras.ops.not_equal(numbers, 0))
    emissions = layers.Dense(len(known.labels))(layers.Dropout(dropout)(hidden))
    model = LabellingModel(inputs, ConditionalRandomField()(emissions))
    model.compile(keras.optimizers.Adam(learning_rate))
    return model


def make_scores(sentences: str | None = None, part: Part = "held", batch: int = 100) -> "keras.callbacks.Callback":
    """A callback that tells precision, recall and F1 of what is found in a part of the sentences after each epoch."""
    from tfperf.zoo.tagger_layers import EntityScores

    return EntityScores(read_sentences(sentences, part), batch)


if __name__ == "__main__":
    from tfperf.zoo.tagger_command import main

    main()
