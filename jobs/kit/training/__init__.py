"""What is around the step of a training: weights, data, the trainer, checkpoints. It reads files and reports; the step
itself is in `step`, and is the one that is rehearsed.
"""
