"""What the tagger is held against: names that were seen in training, each with its most frequent label."""

from collections import Counter, defaultdict

from tfperf.zoo.entities import BEGINS, GOES_ON, OUTSIDE, find_entities


class Dictionary:
    """Finds the longest names that are labelled more often than not where they stand as a whole."""

    def __init__(self, sentences):
        labels = defaultdict(Counter)
        for one in sentences:
            for label, start, end in find_entities(one.labels):
                labels[tuple(one.words[start:end])][label] += 1
        self.longest = max(map(len, labels))
        seen = Counter(name for one in sentences for *_, name in self.list_names(one.words, labels))
        best = {name: counts.most_common(1)[0] for name, counts in labels.items()}
        self.names = {name: label for name, (label, count) in best.items() if 2 * count > seen[name]}

    def list_names(self, words, known):
        """Begin, end and words of each known name, the longer ones first; no part of a name with dots."""
        for start in range(len(words)):
            for end in range(min(len(words), start + self.longest), start, -1):
                name = tuple(words[start:end])
                within = (start > 1 and words[start - 1] == ".") or (end + 1 < len(words) and words[end] == ".")
                if name in known and not within:
                    yield start, end, name

    def label_words(self, words):
        """A label for each word."""
        found, place = [OUTSIDE] * len(words), 0
        for start, end, name in self.list_names(words, self.names):
            if start >= place:
                found[start:end] = [(GOES_ON if n else BEGINS) + self.names[name] for n in range(end - start)]
                place = end
        return found
