"""Whole streams: bytes in, archive out, and back; random access and inspection. `speccompact.api` is the door to them."""
