"""The workshop: what somebody needs who writes an operator, a kernel or a plugin.

``deeployRunner new-operator`` writes a working skeleton, ``check-operator`` checks an operator on its cases in every way
that a network may use it, ``--override`` tries one kernel of one's own in a whole network.
"""
