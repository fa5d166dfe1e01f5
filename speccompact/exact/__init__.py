"""The exact zone: the target network in integers only. EXACT.md states every rounding."""
