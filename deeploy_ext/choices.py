"""Choices that the command line offers and others interpret; needs no package, so that a usage error comes at once."""

KERNELS = ("fast", "direct", "filtered", "portable")
"""Which team kernels may be taken: all, those that multiply as often as the operator says, or only others where a node has
such, or none."""
