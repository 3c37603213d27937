#!/usr/bin/env bash
# Builds the wheel, installs it in an environment of its own, and runs the tests.
set -euo pipefail
cd "$(dirname "$0")"
/usr/bin/env python3 -m venv target/venv
target/venv/bin/pip install --quiet 'maturin>=1.16,<2' mypy
target/venv/bin/maturin build --profile dist --locked --out target/wheels
target/venv/bin/pip install --quiet --force-reinstall --no-index --find-links target/wheels everleaf
target/venv/bin/python -m unittest discover tests
# everleaf.pyi says what is there.
target/venv/bin/stubtest --ignore-missing-stub --ignore-disjoint-bases everleaf
