# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The demo: a bare simulated machine becomes a GPU node, and stays one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.paths import REPOSITORY

GPUNODE = REPOSITORY / "tests/fakes/node/gpunode"
NODE = "demo"

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


def on_node(*words: str) -> str:
    """Run a command on the node and return what it prints."""
    done = subprocess.run(
        [GPUNODE, "exec", NODE, "--", *words], check=True, capture_output=True, text=True
    )
    return done.stdout


def inventory(folder: Path, product: str, gpus: int) -> Path:
    """Write an inventory for the node, with the layout that fits its GPUs."""
    hosts = subprocess.run(
        [GPUNODE, "inventory", NODE], check=True, capture_output=True, text=True
    ).stdout
    variables: dict[str, object] = {"gpu_nodes_require_gpu": True}
    if wheelhouse := os.environ.get("WHEELHOUSE"):
        variables["device_plugin_wheelhouse"] = wheelhouse
    if layout := LAYOUTS.get(product):
        first = gpus // 2
        specs = [{"devices": list(range(first, gpus)), "mig-enabled": True, "mig-devices": layout}]
        if first:
            whole = {"devices": list(range(first)), "mig-enabled": False, "mig-devices": {}}
            specs.insert(0, whole)
        variables["mig_config"] = {"version": "v1", "mig-configs": {"half": specs}}
    (folder / "hosts.yml").write_text(hosts)
    (folder / "group_vars").mkdir()
    (folder / "group_vars/gpu_nodes.yml").write_text(json.dumps(variables, indent=2))
    return folder / "hosts.yml"


def play(hosts: Path) -> None:
    """Run the playbook with the readable display."""
    environment = {
        **os.environ,
        "ANSIBLE_STDOUT_CALLBACK": "gpu.node.progress",
        "ANSIBLE_PIPELINING": "true",
        "ANSIBLE_HOST_KEY_CHECKING": "false",
    }
    command = ["ansible-playbook", "--inventory", hosts, "gpu.node.gpu_nodes"]
    print("$ ansible-playbook gpu_nodes.yml", flush=True)
    done = subprocess.run(command, env=environment, check=False)
    if done.returncode:
        sys.exit(f"demo: the playbook failed; look at the node with: {GPUNODE} ssh {NODE}")


def ask_for_a_pod() -> None:
    """Ask the stand-in kubelet for a pod on a MIG slice, or on a GPU where there is none."""
    resources = json.loads(on_node("standin-kubelet", "resources", "--json"))
    slices = sorted(name for name in resources if "/mig-" in name)
    wanted = slices[0] if slices else "nvidia.com/gpu"
    say(f"A pod asks the kubelet for {wanted}: 1")
    print(on_node("standin-kubelet", "admit", "training-0", "--request", f"{wanted}=1").rstrip())


def show(product: str, gpus: int) -> None:
    """Print what the node has become."""
    say("The node")
    print(on_node("nvidia-smi", "-L").rstrip())
    print()
    print(on_node("standin-kubelet", "resources").rstrip())
    say("The same on a real machine")
    print(
        "  1. ansible-galaxy collection install gpu-node-*.tar.gz\n"
        "  2. an inventory with your machines in the group gpu_nodes\n"
        "  3. ansible-playbook -i inventory.yml gpu.node.gpu_nodes --check --diff   (what would happen)\n"
        "  4. ansible-playbook -i inventory.yml gpu.node.gpu_nodes\n"
        f"\nThis node ({gpus} x {product}) stays up: {GPUNODE.relative_to(REPOSITORY)} ssh {NODE}."
        " `make clean` removes it."
    )


def main() -> None:
    """Run the demo."""
    product, gpus = os.environ.get("PRODUCT", "h100-80"), int(os.environ.get("GPUS", "8"))
    started = time.monotonic()
    say(f"A bare Debian machine with {gpus} x {product}, simulated; no driver, no device plugin")
    subprocess.run([GPUNODE, "down", NODE], check=False, capture_output=True)
    subprocess.run(
        [GPUNODE, "up", NODE, "--product", product, "--gpus", str(gpus)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    folder = Path(tempfile.mkdtemp(prefix="gpu-node-demo-"))
    try:
        hosts = inventory(folder, product, gpus)
        say("Bring-up")
        play(hosts)
        ask_for_a_pod()
        say("Again: nothing has drifted, so nothing changes")
        play(hosts)
    finally:
        shutil.rmtree(folder)
    show(product, gpus)
    print(f"\nDemo done in {time.monotonic() - started:.0f} s.")


if __name__ == "__main__":
    main()
