"""deeploy_ext: from an ONNX network to bare-metal C that trains it on GAP9-class microcontrollers."""

__version__ = "0.1.0"
