"""The training step, written once: what is rehearsed without a card, probed on one and trained is the same code.

`recipe` reads the settings, `model` builds and prepares, `fixes` holds the memory fixes, `loss` and `one_step` run it.
Whatever differs between a card and a rehearsal is asked of a `Machine` (machine.py). Nothing here reads files of
weights or knows of the coordinator.
"""
