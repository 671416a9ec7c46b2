"""Measurements against peers, in fresh processes and within one run. None of them is a test."""
