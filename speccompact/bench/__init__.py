"""Measurements after a verified round trip, beside other compressors. Times depend on the machine; sizes do not."""
