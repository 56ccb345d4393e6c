"""A plugin of deeploy_ext: an operator, a target, a network."""
