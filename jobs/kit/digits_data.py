"""Noisy 8x8 digits, made from a seed. The same seed gives the same digits on every machine; nothing is read or kept."""

import random

GLYPHS = """
..####.. ...##... ..####.. ..####.. ....##.. .######. ..####.. .######. ..####.. ..####..
.#....#. ..###... .#....#. .#....#. ...###.. .#...... .#....#. ......#. .#....#. .#....#.
.#....#. ...##... ......#. ......#. ..#.##.. .#####.. .#...... .....#.. .#....#. .#....#.
.#....#. ...##... .....#.. ...###.. .#..##.. ......#. .#####.. ....#... ..####.. ..#####.
.#....#. ...##... ....#... ......#. .######. ......#. .#....#. ...#.... .#....#. ......#.
.#....#. ...##... ...#.... ......#. ....##.. .#....#. .#....#. ...#.... .#....#. .#....#.
.#....#. ...##... ..#..... .#....#. ....##.. .#....#. .#....#. ...#.... .#....#. .#....#.
..####.. ..####.. .######. ..####.. ....##.. ..####.. ..####.. ...#.... ..####.. ..####..
"""
SIDE = 8
PIXELS = SIDE * SIDE
CLASSES = 10


def stream(seed, name):
    """A random stream of its own for each use, so that one more draw here changes nothing there."""
    return random.Random(f"{seed}/{name}")


class Data:
    """`train` and `held_out` are lists of (pixels, label)."""

    def __init__(self, seed, examples, held_out, noise):
        if examples < 1 or held_out < 1 or not 0 <= noise < 10:
            raise ValueError("examples and held_out must be at least 1, noise from 0 to 10")
        self.seed = seed
        self.noise = noise
        self.glyphs = _glyphs()
        self.train = self._draw("examples", examples)
        self.held_out = self._draw("held out", held_out)

    def cases(self, number):
        """The held-out digits as the numbered pass of a bake sees them."""
        return self._draw(f"pass {number}", len(self.held_out))

    def _draw(self, name, count):
        rng = stream(self.seed, name)
        return [self._one(rng, index % CLASSES) for index in range(count)]

    def _one(self, rng, label):
        """A glyph, moved by up to one pixel, fainter or stronger, under noise."""
        down, right = rng.randrange(-1, 2), rng.randrange(-1, 2)
        ink = 0.6 + 0.6 * rng.random()
        glyph = self.glyphs[label]
        pixels = []
        for y in range(SIDE):
            for x in range(SIDE):
                inside = 0 <= y - down < SIDE and 0 <= x - right < SIDE
                value = ink * glyph[y - down][x - right] if inside else 0.0
                pixels.append(value + rng.gauss(0.0, self.noise))
        return pixels, label


def _glyphs():
    rows = [line.split() for line in GLYPHS.split("\n") if line]
    return [[[1.0 if mark == "#" else 0.0 for mark in row[label]] for row in rows] for label in range(CLASSES)]
