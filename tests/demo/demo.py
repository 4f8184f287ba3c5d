# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The demo: a bare simulated machine becomes a GPU node, and stays one."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.demo import tour
from tests.support.paths import REPOSITORY

GPUNODE = REPOSITORY / "tests/fakes/node/gpunode"

# What half of the GPUs are cut into; the other half stays whole.
LAYOUTS = {
    "a100-40": {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1},
    "a100-80": {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1},
    "a30": {"1g.6gb": 2, "2g.12gb": 1},
    "b200": {"1g.23gb": 2, "2g.45gb": 1, "3g.90gb": 1},
    "h100-80": {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1},
    "h200-141": {"1g.18gb": 2, "2g.35gb": 1, "3g.71gb": 1},
}

BOLD, PLAIN = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")


def say(text: str) -> None:
    """Print a heading."""
    print(f"\n{BOLD}== {text}{PLAIN}", flush=True)


def on_node(folder: Path, *words: str) -> str:
    """Run a command on the node and return what it prints."""
    done = subprocess.run([folder / "node", *words], check=True, capture_output=True, text=True)
    return done.stdout


def inventory(folder: Path, node: str, product: str, gpus: int) -> None:
    """Write an inventory for the node, with the layouts that fit its GPUs."""
    hosts = subprocess.run(
        [GPUNODE, "inventory", node], check=True, capture_output=True, text=True
    ).stdout
    variables: dict[str, object] = {"gpu_nodes_require_gpu": True}
    if wheelhouse := os.environ.get("WHEELHOUSE"):
        variables["device_plugin_wheelhouse"] = wheelhouse
    if layout := LAYOUTS.get(product):
        whole, cut = list(range(gpus // 2)), list(range(gpus // 2, gpus))
        parts = {"mig-enabled": True, "mig-devices": layout}
        half = [{"devices": cut, **parts}]
        if whole:
            half.insert(0, {"devices": whole, "mig-enabled": False, "mig-devices": {}})
        layouts = {"half": half, "each": [{"devices": "all", **parts}]}
        variables |= {
            "mig_config": {"version": "v1", "mig-configs": layouts},
            "mig_selected": "half",
        }
    (folder / "hosts.yml").write_text(hosts)
    (folder / "group_vars").mkdir()
    (folder / "group_vars/gpu_nodes.yml").write_text(json.dumps(variables, indent=2))


def play(folder: Path) -> None:
    """Run the playbook with the readable display."""
    print("$ ansible-playbook -i hosts.yml gpu.node.gpu_nodes", flush=True)
    if subprocess.run([folder / "play", "gpu.node.gpu_nodes"], check=False).returncode:
        sys.exit(f"demo: the playbook failed; look at the node with: {folder / 'node'} journalctl")


def ask_for_a_pod(folder: Path) -> None:
    """Ask the stand-in kubelet for a pod on a MIG slice, or on a GPU where there is none."""
    resources = json.loads(on_node(folder, "standin-kubelet", "resources", "--json"))
    slices = sorted(name for name in resources if "/mig-" in name)
    wanted = slices[0] if slices else "nvidia.com/gpu"
    say(f"A pod asks the kubelet for {wanted}: 1")
    admit = ("standin-kubelet", "admit", "training-0", "--request", f"{wanted}=1")
    print(on_node(folder, *admit).rstrip())


def show(folder: Path, product: str, gpus: int) -> None:
    """Print what the node has become, and what to try on it."""
    say("The node")
    print(on_node(folder, "nvidia-smi", "-L").rstrip())
    print()
    print(on_node(folder, "standin-kubelet", "resources").rstrip())
    say("The same on a real machine")
    print(
        "  1. ansible-galaxy collection install gpu-node-*.tar.gz\n"
        "  2. an inventory with your machines in the group gpu_nodes\n"
        "  3. ansible-playbook -i inventory.yml gpu.node.gpu_nodes --check --diff   (what would happen)\n"
        "  4. ansible-playbook -i inventory.yml gpu.node.gpu_nodes"
    )
    say(f"Try on this one ({gpus} x {product}), which stays: cd {os.path.relpath(folder)}")
    for title, command in tour.stops(mig=product in LAYOUTS and gpus > 1):
        print(f"  {title:16}  {command}")
    print("\n  ./node bash is a shell on it, and `make clean` removes it.")


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--node", default="demo")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / ".cache/demo")
    asked = parser.parse_args()
    folder: Path = asked.folder
    product, gpus = os.environ.get("PRODUCT", "h100-80"), int(os.environ.get("GPUS", "8"))
    started = time.monotonic()
    say(f"A bare Debian machine with {gpus} x {product}, simulated; no driver, no device plugin")
    subprocess.run([GPUNODE, "down", asked.node], check=False, capture_output=True)
    subprocess.run(
        [GPUNODE, "up", asked.node, "--product", product, "--gpus", str(gpus)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tour.write(folder, [str(GPUNODE), "exec", asked.node, "--"])
    inventory(folder, asked.node, product, gpus)
    say("Bring-up")
    play(folder)
    ask_for_a_pod(folder)
    say("Again: nothing has drifted, so nothing changes")
    play(folder)
    show(folder, product, gpus)
    print(f"\nDemo done in {time.monotonic() - started:.0f} s.")


if __name__ == "__main__":
    main()
