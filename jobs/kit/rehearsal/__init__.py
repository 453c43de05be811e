"""A training step without a card: fake tensors, every block's birth and death written down as an allocation stream.

`recorder` writes the stream, `imitations` holds what a CUDA device does otherwise than the fake one (each a small
piece that can be switched off, so that a test can show that it matters), `stand_ins` the quantised layers,
`versions` says what all of this was checked against.
"""
