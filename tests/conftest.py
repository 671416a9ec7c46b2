"""Makes the servers of tests/servers.py fixtures of every test."""

pytest_plugins = ["tests.servers"]
