"""The kernel bench: every kernel over a committed list of layers, its cycles measured and its numbers checked.

``shapes.toml`` lists layers; :mod:`cases` makes nodes of them, forward and gradient; :mod:`task` puts nodes into one training
task, so that they go the way of every network through planner, code generation and engine; :mod:`run` collects what was
measured; :mod:`calibrate` compares it with what the cost model says and fits the model's constants.
"""
