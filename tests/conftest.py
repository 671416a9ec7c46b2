"""Makes the servers, tiers and farms of tests/*.py fixtures of every test."""

pytest_plugins = ["tests.servers", "tests.tiers", "tests.compositions", "tests.farms"]
