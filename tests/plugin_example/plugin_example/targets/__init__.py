"""Targets of the plugin."""
