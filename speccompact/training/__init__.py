"""Tuning a target on text: adapters, trained on sequences that start as slots do."""
