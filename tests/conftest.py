"""Makes the servers and tiers of tests/servers.py and tests/tiers.py fixtures of every test."""

pytest_plugins = ["tests.servers", "tests.tiers"]
