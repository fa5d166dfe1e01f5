"""Entropy coding in integers: distributions to intervals, intervals to lanes."""
