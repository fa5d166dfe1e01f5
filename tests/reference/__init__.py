"""A second decoder, written from FORMAT.md and EXACT.md alone, to prove that they say everything.

It shares no code with the product. It is slow and has no options: it decodes an archive or refuses it.
"""
