"""Prose of documentation in reStructuredText, without its markup."""
