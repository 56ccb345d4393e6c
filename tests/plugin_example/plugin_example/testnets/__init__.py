"""Test networks of the plugin."""
