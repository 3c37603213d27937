#!/usr/bin/env python3
"""The bill of materials of the command `everleaf`, as CycloneDX 1.5 on standard output: each crate
that it is compiled from, with version, licence and the checksum of its package in Cargo.lock.

    packaging/sbom.py [--features cluster,tls] > everleaf.cdx.json

Made from `cargo tree` and `cargo metadata`, so that it needs no tool that is not there already."""

import json
import pathlib
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = "x86_64-unknown-linux-gnu"


def cargo(*arguments):
    command = ["cargo", *arguments, "--locked", *sys.argv[1:]]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


tree = cargo("tree", "-p", "everleaf-cli", "-e", "normal,build", "--prefix", "none", "--target",
             TARGET, "--format", "{p}")
used = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET,
           "--all-features"]
metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
sums = {(p["name"], p["version"]): p.get("checksum") for p in lock["package"]}
components = []
for package in sorted(metadata["packages"], key=lambda p: (p["name"], p["version"])):
    name, version = package["name"], package["version"]
    if (name, f"v{version}") not in used:
        continue
    component = {"type": "library", "name": name, "version": version,
                 "purl": f"pkg:cargo/{name}@{version}", "bom-ref": f"{name}@{version}"}
    if package["license"]:
        component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if sums.get((name, version)):
        component["hashes"] = [{"alg": "SHA-256", "content": sums[name, version]}]
    components.append(component)
command = next(c for c in components if c["name"] == "everleaf-cli")
components.remove(command)
print(json.dumps({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
                  "metadata": {"component": {**command, "type": "application"}},
                  "components": components}, indent=1))
