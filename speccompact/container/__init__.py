"""The file format: pure structures (format, frames, rice), readers and writers of them. FORMAT.md is the specification."""
