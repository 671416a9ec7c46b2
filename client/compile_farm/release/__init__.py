"""Releases: publish artifacts under a name and revision, load them without tracing."""
