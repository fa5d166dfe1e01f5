"""Drafts of the next tokens, and their verification by the target."""
