#!/bin/sh
# The tests talk to a real redis-server: installs Debian's package where that is possible, and says
# what to do where it is not.
set -eu
if command -v redis-server >/dev/null 2>&1; then
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "the tests need redis-server on PATH: install it with your package manager" >&2
    exit 1
fi
as_root=""
if [ "$(id -u)" != 0 ]; then
    if ! sudo -n true 2>/dev/null; then
        echo "the tests need redis-server: sudo apt-get install redis-server" >&2
        exit 1
    fi
    as_root="sudo -n env DEBIAN_FRONTEND=noninteractive"
fi
export DEBIAN_FRONTEND=noninteractive
echo "installing redis-server, which the tests need" >&2
$as_root apt-get update -qq
$as_root apt-get install -y -qq --no-install-recommends redis-server >/dev/null
