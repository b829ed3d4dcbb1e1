"""Translations from a model: the most probable next pieces, one after the other, for all sentences at once.

The model is a step function, from the last ids of all hypotheses to the log probabilities of their next ones.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfperf.workloads.translate.vocabulary import END, PAD, START

State = Any  # a nested structure of tensors with leading axis B K
StepFunction = Callable[[tf.Tensor, State], tuple[tf.Tensor, State]]
ALPHA = 0.6


class _BeamState(NamedTuple):
    """B sentences with K hypotheses each, after some steps; T ids at most."""

    ids: tf.Tensor  # (B, K, T) of what has not ended, the most probable first
    total: tf.Tensor  # (B, K) its log probability
    best: tf.Tensor  # (B, T) the best that has ended
    score: tf.Tensor  # (B) its score; -inf: none has
    ended: tf.Tensor  # (B) how many have
    state: State


class _Continuations(NamedTuple):
    """The 2 K most probable continuations of each of B sentences, the most probable first."""

    ids: tf.Tensor  # (B, 2 K, T)
    total: tf.Tensor  # (B, 2 K) log probabilities
    ends: tf.Tensor  # (B, 2 K) whether the last id is END
    parent: tf.Tensor  # (B, 2 K) which of the K hypotheses it continues


def repeat_state(state: State, beam: int) -> State:
    """A state of B sentences, leading axis B, for `beam` hypotheses of each: leading axis B beam."""
    return tf.nest.map_structure(lambda x: tf.repeat(x, beam, axis=0), state)


def compute_length_penalty(length: int | tf.Tensor, alpha: float, dtype: tf.DType) -> tf.Tensor:
    """What the log probability of so many ids, END included, is divided by.

    Source: Wu et al. 2016, "Google's neural machine translation system", eq. 14, without its coverage penalty.
    """
    return ((5 + tf.cast(length, dtype)) / 6) ** alpha


def search_beam(
    step: StepFunction,
    start_state: State,
    batch: int | tf.Tensor,
    beam: int,
    max_length: int,
    alpha: float = ALPHA,
    dtype: tf.DType = tf.float32,
) -> tuple[tf.Tensor, tf.Tensor]:
    """The best translation found of each of `batch` = B sentences: ids (B, T) int32, T = `max_length`, and scores (B).

    `step` takes the last ids (B K), int32, START at first, of K = `beam` hypotheses a sentence, and their state; it
    returns log probabilities (B K, V), V > 1 known, of the next ids, and the new state. Each tensor of the state has
    leading axis B K (see `repeat_state`); what is the same for all hypotheses of a sentence needs no place in it.
    A hypothesis ends when END is among the K best continuations of its sentence. The search of a sentence is over when
    K have ended, or none can be better. The score is the log probability, in `dtype`, over `compute_length_penalty`,
    `alpha` from 0 on. PAD follows END; where nothing ended within T ids, the most probable that did not is returned.
    """
    rules = _BeamSearch(step, beam, max_length, alpha, dtype)
    _, search = tf.while_loop(
        lambda t, search: ~tf.reduce_all(rules.is_over(search)),
        lambda t, search: (t + 1, rules.extend_hypotheses(t, search)),
        (tf.constant(0), rules.make_start(batch, start_state)),
        maximum_iterations=max_length,
    )
    open_score = search.total[:, 0] / compute_length_penalty(max_length, alpha, dtype)
    none = search.score == -float("inf")
    return tf.where(none[:, None], search.ids[:, 0], search.best), tf.where(none, open_score, search.score)


def search_greedy(
    step: StepFunction, start_state: State, batch: int | tf.Tensor, max_length: int, dtype: tf.DType = tf.float32
) -> tuple[tf.Tensor, tf.Tensor]:
    """The most probable id each time: as `search_beam` with one hypothesis; scores are log probabilities."""
    return search_beam(step, start_state, batch, 1, max_length, 0.0, dtype)


class _BeamSearch(NamedTuple):
    """How a search begins, goes on and ends; arguments as of `search_beam`."""

    step: StepFunction
    beam: int
    max_length: int
    alpha: float
    dtype: tf.DType

    def make_start(self, batch: int | tf.Tensor, state: State) -> _BeamState:
        """One empty hypothesis: the others, which would be the same, are impossible."""
        ids = tf.fill([batch, self.beam, self.max_length], PAD)
        total = tf.tile(tf.constant([[0.0] + [-float("inf")] * (self.beam - 1)], self.dtype), [batch, 1])
        score = tf.fill([batch], tf.constant(-float("inf"), self.dtype))
        return _BeamState(ids, total, ids[:, 0], score, tf.zeros([batch], tf.int32), state)

    def is_over(self, search: _BeamState) -> tf.Tensor:
        """Whether each sentence (B) has its translation: what has not ended only loses probability."""
        bound = search.total[:, 0] / compute_length_penalty(self.max_length, self.alpha, self.dtype)
        return (search.ended >= self.beam) | (bound <= search.score)

    def extend_hypotheses(self, t: tf.Tensor, search: _BeamState) -> _BeamState:
        """All hypotheses with an id more, their id number t (from 0)."""
        last = tf.where(t == 0, START, tf.gather(search.ids, tf.maximum(t - 1, 0), axis=2))
        log_probs, state = self.step(tf.reshape(last, [-1]), search.state)
        candidates = self._find_candidates(t, search, log_probs)
        return self._select_open(self._merge_ended(t, search, candidates), candidates, state)

    def _find_candidates(self, t: tf.Tensor, search: _BeamState, log_probs: tf.Tensor) -> _Continuations:
        """The 2 K best continuations: each hypothesis ends in one way, so that K of them do not end."""
        size = log_probs.shape[-1]
        total = search.total[:, :, None] + tf.reshape(tf.cast(log_probs, self.dtype), [-1, self.beam, size])
        total, which = tf.math.top_k(tf.reshape(total, [-1, self.beam * size]), k=2 * self.beam)
        parent, last = which // size, which % size
        ids = tf.gather(search.ids, parent, batch_dims=1)
        ids = tf.where(tf.range(self.max_length) == t, last[:, :, None], ids)
        return _Continuations(ids, total, last == END, parent)

    def _merge_ended(self, t: tf.Tensor, search: _BeamState, candidates: _Continuations) -> _BeamState:
        """The search after those of the K best candidates that end, in sentences where it is not over."""
        ends = candidates.ends & (tf.range(2 * self.beam) < self.beam) & ~self.is_over(search)[:, None]
        score = tf.where(ends, candidates.total / compute_length_penalty(t + 1, self.alpha, self.dtype), -float("inf"))
        place, highest = tf.argmax(score, axis=1), tf.reduce_max(score, axis=1)
        better = highest > search.score
        best = tf.where(better[:, None], tf.gather(candidates.ids, place, batch_dims=1), search.best)
        ended = search.ended + tf.math.count_nonzero(score > -float("inf"), axis=1, dtype=tf.int32)
        return search._replace(best=best, score=tf.where(better, highest, search.score), ended=ended)

    def _select_open(self, search: _BeamState, candidates: _Continuations, state: State) -> _BeamState:
        """The search with the K most probable candidates that have not ended, and their state."""
        total, kept = tf.math.top_k(tf.where(~candidates.ends, candidates.total, -float("inf")), k=self.beam)
        sentence = tf.range(tf.shape(total)[0])[:, None] * self.beam
        rows = tf.reshape(sentence + tf.gather(candidates.parent, kept, batch_dims=1), [-1])
        state = tf.nest.map_structure(lambda x: tf.gather(x, rows), state)
        return search._replace(ids=tf.gather(candidates.ids, kept, batch_dims=1), total=total, state=state)
