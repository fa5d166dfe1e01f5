"""Whole streams: bytes in, archive out, and back; random access; inspection. `speccompact.api` is the door."""
