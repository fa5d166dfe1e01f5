This is no archive.
