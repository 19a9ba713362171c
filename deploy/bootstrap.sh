#!/usr/bin/env bash
# Make .venv as uv.lock says; with --dev also the tools for tests. Says nothing when it is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset VIRTUAL_ENV PYTHONHOME UV_PROJECT_ENVIRONMENT
export UV_PYTHON_DOWNLOADS=never

readonly STAMP=.venv/.heeler-lock
readonly TOOLS=.heeler-tools

fail() {
    echo "$1" >&2
    exit 1
}

fingerprint() { cat uv.lock pyproject.toml | cksum; }

usable() { # it starts (a version manager's shim may not) and is new enough
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1
}

find_python() {
    local candidate
    if [ -z "${HEELER_PYTHON:-}" ] && usable .venv/bin/python; then
        echo .venv/bin/python # keep what is there
        return
    fi
    for candidate in "${HEELER_PYTHON:-}" python3.15 python3.14 python3.13 python3.12 python3 python; do
        if [ -n "$candidate" ] && usable "$candidate"; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    for candidate in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python3 \
        /usr/local/bin/python3.1[2-9] /opt/*/bin/python3.1[2-9] \
        "$HOME"/.local/share/uv/python/cpython-3.1[2-9]*/bin/python3; do
        if usable "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

find_uv() {
    local candidate
    for candidate in uv "$TOOLS/bin/uv" "$HOME/.local/bin/uv" "$HOME/.cargo/bin/uv"; do
        if "$candidate" --version >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

install_uv() {
    echo "Installing uv into $TOOLS ..." >&2
    rm -rf "$TOOLS"
    if ! "$python" -m venv "$TOOLS" >/dev/null 2>&1; then
        # Debian's Python comes without ensurepip; its pip can fill a venv from outside.
        rm -rf "$TOOLS"
        "$python" -m venv --without-pip "$TOOLS" >/dev/null 2>&1 &&
            "$python" -m pip --python "$TOOLS/bin/python" --version >/dev/null 2>&1 ||
            fail "Neither uv nor pip is here to install the packages: install uv (https://docs.astral.sh/uv/) or python3-venv."
        "$python" -m pip --python "$TOOLS/bin/python" install --quiet uv >&2
    else
        "$TOOLS/bin/python" -m pip install --quiet --disable-pip-version-check uv >&2
    fi || fail "pip could not install uv. Check the package index that pip is configured with."
    echo "$TOOLS/bin/uv"
}

sync_from_mirror() { # uv.lock names files by address; where only a mirror is reachable, use hashes
    local index=${UV_DEFAULT_INDEX:-${UV_INDEX_URL:-${PIP_INDEX_URL:-}}}
    if [ -z "$index" ]; then
        index=$("$python" -m pip config get global.index-url 2>/dev/null) || return 1
    fi
    echo "Trying the configured package index instead ..." >&2
    [ -x .venv/bin/python ] || "$uv" venv --quiet --python "$python" .venv || return 1
    "$uv" export --frozen --quiet --no-emit-workspace "${groups[@]}" |
        "$uv" pip sync --quiet --require-hashes --default-index "$index" --python .venv/bin/python -
}

# Trust what the machine trusts: behind a proxy of one's own that is more than uv brings along.
export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-1}" UV_NATIVE_TLS="${UV_NATIVE_TLS:-1}"

wanted=run
if [ "${1:-}" = --dev ]; then wanted=dev; fi
have=none
if [ -x .venv/bin/python ] && [ -f "$STAMP" ]; then read -r have <"$STAMP"; fi
if [ "$have" = dev ]; then wanted=dev; fi # never take away what is installed
if [ "$have" = "$wanted" ] && [ "$(tail -n 1 "$STAMP")" = "$(fingerprint)" ]; then exit 0; fi

node_is_new() { # what the tests of the TypeScript clients need
    command -v npm >/dev/null 2>&1 &&
        node -e 'process.exit(process.versions.node.split(".")[0] < 20)' >/dev/null 2>&1
}

python=$(find_python) ||
    fail "Heeler needs Python 3.12 or newer and none was found: install one, or name it in HEELER_PYTHON."
uv=$(find_uv) || uv=$(install_uv)
groups=()
if [ "$wanted" = run ]; then groups+=(--no-group dev); fi
if [ "$wanted" = dev ] && ! node_is_new; then groups+=(--group typescript); fi
# Compiled once and now: processes that start together would each do it, and the first start would
# take longer than its deadlines allow.
export UV_COMPILE_BYTECODE=1
echo "Installing the packages that uv.lock names, for $("$python" --version) ..." >&2
"$uv" sync --frozen --inexact --quiet --python "$python" "${groups[@]}" || sync_from_mirror ||
    fail "uv could not install the packages that uv.lock names; see above."
.venv/bin/python -m compileall -q -j 0 cli libs services deploy
printf '%s\n%s\n' "$wanted" "$(fingerprint)" >"$STAMP"
