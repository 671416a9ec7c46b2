"""The storage room: artifacts by digest and index entries by key, over disk, Redis and S3.

In: keys, digests and the bytes of artifacts, from the gateway and the worker. Out: values that say
what was found and by which tier. ``open.open_store`` composes it; docs/storage.md explains it.
"""
