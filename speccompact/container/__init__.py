"""The file format: pure structures (format, frames, rice), readers and writers of them. See FORMAT.md."""
