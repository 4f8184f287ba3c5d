# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""On a simulated node, as root: a control plane and a node's kubelet, with genuine programs and nothing pulled.

Arguments: ``prepare``, ``serve``, ``control`` or ``join``, and the folder of kubelet, kube-apiserver, kube-scheduler,
kube-controller-manager, kubeadm, kubectl and etcd. What is prepared is what any node has before it joins: a container
runtime with its network, and an image. Serving starts the API server; control, once that is ready, all others of the
control plane; joining the kubelet, on the same machine or on one that has got its access. Who calls this waits for what
was started.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

PACKAGES = ("containernetworking-plugins", "iptables")
PKI = "/etc/kubernetes/pki"
ADMIN = "/etc/kubernetes/super-admin.conf"
ETCD = "http://127.0.0.1:2379"
CONTAINERD = Path("/etc/containerd/config.toml")
CRI = '[plugins."io.containerd.grpc.v1.cri"]\n'
# What a container inside of a container needs: no lower OOM score than its own, and an image that is there.
NESTED = '    restrict_oom_score_adj = true\n    sandbox_image = "localhost/tools:latest"\n'
NETWORK = {
    "cniVersion": "0.4.0",
    "name": "bridge",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "ipam": {
                "type": "host-local",
                "subnet": "10.244.0.0/24",
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
    ],
}
KUBELET_UNIT = """\
[Unit]
Description=kubelet
After=containerd.service
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart={folder}/kubelet --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml \\
    --hostname-override={name}
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
"""


def run(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command; one that fails says so with its own words."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if check and done.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done


def prepare() -> None:
    """Install what the node needs beside Kubernetes' programs, and take the stand-in kubelet away."""
    run("systemctl", "disable", "--now", "kubelet.service")
    run("sh", "-c", "rm -rf /var/lib/kubelet")
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    run("apt-get", "update", "-qq")
    run("apt-get", "install", "-qq", "--no-install-recommends", *PACKAGES)
    text = CONTAINERD.read_text()
    if NESTED not in text:
        before, header, after = text.partition(CRI)
        CONTAINERD.write_text(before + (header or CRI) + NESTED + after)
    network = Path("/etc/cni/net.d/10-bridge.conflist")
    network.parent.mkdir(parents=True, exist_ok=True)
    network.write_text(json.dumps(NETWORK))
    run("systemctl", "restart", "containerd.service")


def serve(folder: str) -> None:
    """Start the API server."""
    name, address = who()
    certificates(folder, name, address)
    etcd(folder)
    api_server(folder, address)


def who() -> tuple[str, str]:
    """Return the node's name and address."""
    return socket.gethostname(), socket.gethostbyname(socket.gethostname())


def control(folder: str) -> None:
    """Start the rest of the control plane."""
    admin = (f"{folder}/kubectl", f"--kubeconfig={ADMIN}")
    bind(admin, "kubeadm:cluster-admins", "cluster-admin", "--group=kubeadm:cluster-admins")
    kubelet_client = "--user=kube-apiserver-kubelet-client"
    bind(admin, "apiserver-kubelet", "system:kubelet-api-admin", kubelet_client)
    controllers(folder)


def certificates(folder: str, name: str, address: str) -> None:
    """Make the keys and the access of each program, by kubeadm."""
    version = run(f"{folder}/kubelet", "--version").stdout.split()[-1]
    runtime = "unix:///run/containerd/containerd.sock"
    config = [
        {
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "InitConfiguration",
            "localAPIEndpoint": {"advertiseAddress": address, "bindPort": 6443},
            "nodeRegistration": {"name": name, "criSocket": runtime},
        },
        {
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "ClusterConfiguration",
            "kubernetesVersion": version,
            "controlPlaneEndpoint": f"{address}:6443",
            "networking": {"serviceSubnet": "10.96.0.0/16", "podSubnet": "10.244.0.0/16"},
        },
    ]
    path = Path("/root/kubeadm.yaml")
    path.write_text("\n---\n".join(json.dumps(one) for one in config))
    for phase in ("certs", "kubeconfig"):
        run(f"{folder}/kubeadm", "init", "phase", phase, "all", f"--config={path}")


def start(unit: str, *words: str) -> None:
    """Start a program as a unit that is gone after a reboot."""
    properties = ("--property=Restart=on-failure", "--property=StartLimitIntervalSec=0")
    run("systemd-run", "--quiet", f"--unit={unit}", *properties, *words)


def etcd(folder: str) -> None:
    """Start the store, without the care for its disk."""
    urls = [f"--listen-client-urls={ETCD}", f"--advertise-client-urls={ETCD}"]
    start(
        "kube-etcd", f"{folder}/etcd", "--data-dir=/var/lib/kube-etcd", "--unsafe-no-fsync", *urls
    )


def api_server(folder: str, address: str) -> None:
    """Start the API server with the admission and authorization that kubeadm sets."""
    start(
        "kube-apiserver",
        f"{folder}/kube-apiserver",
        f"--etcd-servers={ETCD}",
        f"--advertise-address={address}",
        f"--client-ca-file={PKI}/ca.crt",
        f"--tls-cert-file={PKI}/apiserver.crt",
        f"--tls-private-key-file={PKI}/apiserver.key",
        f"--kubelet-client-certificate={PKI}/apiserver-kubelet-client.crt",
        f"--kubelet-client-key={PKI}/apiserver-kubelet-client.key",
        "--service-account-issuer=https://kubernetes.default",
        f"--service-account-key-file={PKI}/sa.pub",
        f"--service-account-signing-key-file={PKI}/sa.key",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
    )


def bind(admin: tuple[str, ...], name: str, role: str, whom: str) -> None:
    """Give a role to somebody, as kubeadm does."""
    run(*admin, "create", "clusterrolebinding", name, f"--clusterrole={role}", whom)


def controllers(folder: str) -> None:
    """Start the controllers and the scheduler."""
    start(
        "kube-controller-manager",
        f"{folder}/kube-controller-manager",
        "--kubeconfig=/etc/kubernetes/controller-manager.conf",
        f"--service-account-private-key-file={PKI}/sa.key",
        f"--root-ca-file={PKI}/ca.crt",
        "--use-service-account-credentials=true",
    )
    start(
        "kube-scheduler",
        f"{folder}/kube-scheduler",
        "--kubeconfig=/etc/kubernetes/scheduler.conf",
    )


def join(folder: str) -> None:
    """Start the node's kubelet, in a unit of the usual name."""
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "nodeStatusUpdateFrequency": "1s",  # so that a test sees what comes and goes
        "imageGCHighThresholdPercent": 100,
        "localStorageCapacityIsolation": False,
        "evictionHard": {"memory.available": "50Mi"},
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{PKI}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
    }
    Path("/var/lib/kubelet").mkdir(parents=True, exist_ok=True)
    Path("/var/lib/kubelet/config.yaml").write_text(json.dumps(config))
    unit = KUBELET_UNIT.format(folder=folder, name=socket.gethostname())
    Path("/etc/systemd/system/kubelet.service").write_text(unit)
    run("systemctl", "daemon-reload")
    run("systemctl", "enable", "--now", "kubelet.service")


if __name__ == "__main__":
    done = {"prepare": lambda _folder: prepare(), "serve": serve, "control": control, "join": join}
    done[sys.argv[1]](sys.argv[2])
