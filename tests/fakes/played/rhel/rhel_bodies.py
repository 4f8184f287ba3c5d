# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the small packages of the RHEL family have in them, as far as it matters."""

from __future__ import annotations

from pathlib import Path

NO_FILES = "%files\n"
CORE = """\
%install
mkdir -p %{{buildroot}}/boot %{{buildroot}}/lib/modules/{kernel}
touch %{{buildroot}}/boot/vmlinuz-{kernel} %{{buildroot}}/lib/modules/{kernel}/modules.builtin
ln -s ../../../usr/src/kernels/{kernel} %{{buildroot}}/lib/modules/{kernel}/build
%files
/boot/vmlinuz-{kernel}
/lib/modules/{kernel}
"""
DEVEL = """\
%install
mkdir -p %{{buildroot}}/usr/src/kernels/{kernel}
touch %{{buildroot}}/usr/src/kernels/{kernel}/Makefile
%files
/usr/src/kernels/{kernel}
"""
DKMS = """\
%install
mkdir -p %{buildroot}/usr/sbin
touch %{buildroot}/usr/sbin/dkms
chmod 755 %{buildroot}/usr/sbin/dkms
%files
/usr/sbin/dkms
"""
# What dkms does in the script of the package, in the language that rpm brings itself.
KMOD = """\
%install
mkdir -p %{{buildroot}}/usr/src/nvidia-{version}
echo '{version} {kind}' > %{{buildroot}}/usr/src/nvidia-{version}/dkms.conf
%post -p <lua>
for kernel in posix.files("/lib/modules") do
  if kernel:sub(1, 1) ~= "." then
    if posix.stat("/lib/modules/" .. kernel .. "/build/Makefile") then
      posix.mkdir("/lib/modules/" .. kernel .. "/extra")
      local module = io.open("/lib/modules/" .. kernel .. "/extra/nvidia.ko", "w")
      module:write("{version} {kind}\\n")
      module:close()
    else
      io.stderr:write("Error! Your kernel headers for kernel " .. kernel .. " cannot be found.\\n")
    end
  end
end
%preun -p <lua>
for kernel in posix.files("/lib/modules") do
  local path = "/lib/modules/" .. kernel .. "/extra/nvidia.ko"
  local module = io.open(path)
  if module and module:read("l") == "{version} {kind}" then
    os.remove(path)
  end
end
%files
/usr/src/nvidia-{version}
"""
FAILS = """\
%pre -p <lua>
error("the test wants this package to fail")
"""
READY = """\
%install
mkdir -p %{{buildroot}}/lib/modules/{kernel}/extra/drivers/video/nvidia
echo '{version} {kind}' > %{{buildroot}}/lib/modules/{kernel}/extra/drivers/video/nvidia/nvidia.ko
%files
/lib/modules/{kernel}/extra
"""
LIBRARIES = """\
%install
mkdir -p %{{buildroot}}/usr/lib64
touch %{{buildroot}}/usr/lib64/libnvidia-ml.so.{version}
%files
/usr/lib64/libnvidia-ml.so.{version}
"""
LOCKING = """\
%install
mkdir -p %{buildroot}/usr/lib/dnf-plugins
touch %{buildroot}/usr/lib/dnf-plugins/versionlock.py
%files
/usr/lib/dnf-plugins/versionlock.py
"""
RELEASE = """\
%install
mkdir -p %{{buildroot}}/etc/yum.repos.d
cat > %{{buildroot}}/etc/yum.repos.d/epel.repo <<END
[epel]
name=epel
baseurl=file://{folder}
enabled=1
gpgcheck=0
END
%files
/etc/yum.repos.d/epel.repo
"""


def release(folder: Path) -> str:
    """Return the body of a package that brings the repository epel."""
    return RELEASE.format(folder=folder)
