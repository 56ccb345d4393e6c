"""Target file for GVSoC: its pulp-open board with what distinguishes GAP9's L1.

L1 has 128 KiB instead of 64, and each of its banks answers one word per cycle, so that cores that want the same bank
wait for each other. Nothing is built for it: the installed generators get other parameters.
"""

import functools

import gvsoc.runner
import pulp.chips.pulp_open.cluster as cluster
import pulp.chips.pulp_open.l1_subsystem as l1_subsystem
from pulp.chips.pulp_open.pulp_open_board import Pulp_open_board

L1_BYTES = 0x20000
WORD = 2  # log2 of the bytes that a bank gives per cycle


def load_properties(conf, path):
    """The stock cluster's settings with GAP9's size of L1."""
    properties = super(cluster.ClusterConf, conf).load_property_file(path)
    for mapping in ("mapping", "ts_mapping"):
        properties["l1"][mapping]["size"] = hex(L1_BYTES)
    return properties


class Board(Pulp_open_board):
    """The stock board around the changed cluster."""

    def __init__(self, parent, name, parser, options):
        cluster.ClusterConf.load_property_file = load_properties
        l1_subsystem.Memory = functools.partial(l1_subsystem.Memory, width_log2=WORD)
        super().__init__(parent, name, parser, options)


class Target(gvsoc.runner.Target):
    """What ``gvsoc --target=gap9like`` runs."""

    gapy_description = "pulp-open with the L1 of GAP9: 128 KiB, bank conflicts"
    model = Board
    name = "gap9like"

    def __init__(self, parser, options=None, name=None):
        super().__init__(parser, options, model=Board, name=name)
