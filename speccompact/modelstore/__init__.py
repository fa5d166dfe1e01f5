"""Where models come from and where they are kept: checkpoints, exact model files, the local store, pulling."""
