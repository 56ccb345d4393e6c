"""Plan -> C through Mako. Nothing is decided here: sizes, addresses and variants come from the Plan."""
