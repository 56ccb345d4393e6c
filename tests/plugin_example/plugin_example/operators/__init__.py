"""Operators of the plugin."""
