"""A network with one hidden layer of tanh and a softmax over ten classes, in plain Python: forward, backward, one step
of gradient descent. The order of all sums is fixed, so equal steps give equal bits.
"""

import math
from operator import mul

from digits_data import CLASSES, PIXELS


class Net:
    def __init__(self, w1, b1, w2, b2):
        self.w1, self.b1, self.w2, self.b2 = w1, b1, w2, b2

    @classmethod
    def fresh(cls, hidden, rng):
        if not 1 <= hidden <= 4096:
            raise ValueError("hidden must be from 1 to 4096")
        near, far = 1 / math.sqrt(PIXELS), 1 / math.sqrt(hidden)
        w1 = [[rng.gauss(0.0, near) for _ in range(PIXELS)] for _ in range(hidden)]
        w2 = [[rng.gauss(0.0, far) for _ in range(hidden)] for _ in range(CLASSES)]
        return cls(w1, [0.0] * hidden, w2, [0.0] * CLASSES)

    def packed(self):
        return {"w1": self.w1, "b1": self.b1, "w2": self.w2, "b2": self.b2}

    @classmethod
    def unpacked(cls, packed):
        return cls(packed["w1"], packed["b1"], packed["w2"], packed["b2"])

    def forward(self, pixels):
        """The hidden layer and the chances of the classes."""
        hidden = [math.tanh(bias + sum(map(mul, row, pixels))) for row, bias in zip(self.w1, self.b1)]
        scores = [bias + sum(map(mul, row, hidden)) for row, bias in zip(self.w2, self.b2)]
        top = max(scores)
        powers = [math.exp(score - top) for score in scores]
        total = sum(powers)
        return hidden, [power / total for power in powers]

    def answer(self, pixels):
        _, chances = self.forward(pixels)
        return chances.index(max(chances))

    def loss(self, examples):
        """Mean cross-entropy, without the weights' decay."""
        losses = [_entropy(self.forward(pixels)[1][label]) for pixels, label in examples]
        return sum(losses) / len(losses)

    def step(self, examples, rate, decay):
        """One step on a batch; returns the batch's loss before it."""
        rows = [self._backward(pixels, label) for pixels, label in examples]
        scale = rate / len(examples)
        keep = 1.0 - rate * decay
        # One column for each unit: its values over the batch.
        pixels = list(zip(*[example[0] for example in examples]))
        hidden = list(zip(*[row[1] for row in rows]))
        inner = list(zip(*[row[2] for row in rows]))
        outer = list(zip(*[row[3] for row in rows]))
        self.w1 = [_moved(weights, slope, pixels, keep, scale) for weights, slope in zip(self.w1, inner)]
        self.w2 = [_moved(weights, slope, hidden, keep, scale) for weights, slope in zip(self.w2, outer)]
        self.b1 = [bias - scale * sum(slope) for bias, slope in zip(self.b1, inner)]
        self.b2 = [bias - scale * sum(slope) for bias, slope in zip(self.b2, outer)]
        return sum(row[0] for row in rows) / len(rows)

    def _backward(self, pixels, label):
        """Loss, hidden layer, and the slopes at the hidden layer and at the scores."""
        hidden, chances = self.forward(pixels)
        outer = [chance - (label == number) for number, chance in enumerate(chances)]
        columns = zip(*self.w2)
        inner = [(1.0 - value * value) * sum(map(mul, column, outer)) for value, column in zip(hidden, columns)]
        return _entropy(chances[label]), hidden, inner, outer


def _moved(weights, slope, columns, keep, scale):
    return [keep * weight - scale * sum(map(mul, slope, column)) for weight, column in zip(weights, columns)]


def _entropy(chance):
    return -math.log(max(chance, 1e-300))
