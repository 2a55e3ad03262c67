"""accelmark: deep-learning performance, measured, compared and published with its uncertainty."""

__version__ = "0.1.0"
