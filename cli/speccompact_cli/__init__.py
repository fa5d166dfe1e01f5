"""Command line of SpecCompact: ``speccompact``.

Importing this package, or any module of it, loads neither torch nor numpy: commands reach the library through the lazy
names of ``speccompact``, so that ``speccompact --help`` answers at once.
"""
