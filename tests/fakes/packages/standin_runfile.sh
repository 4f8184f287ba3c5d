#!/bin/sh
# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0
# A stand-in for NVIDIA's .run file. From the installer's published source it has: the names of the options, the
# folder /var/lib/nvidia with the version in the first line of "log", the log in /var/log, nvidia-uninstall in
# /usr/bin, and the refusals over nouveau and over a running driver. It builds and loads nothing.
set -u
version=@VERSION@
root=${STANDIN_ROOT:?}
log=$root/var/log/nvidia-installer.log
mkdir -p "$root/var/log" "$root/usr/bin"
echo "nvidia-installer log file '/var/log/nvidia-installer.log'" >"$log"
fail() {
  echo "ERROR: $*" | tee -a "$log" >&2
  exit 1
}
running=''
silent=''
for word in "$@"; do
  case $word in
    --silent) silent=1 ;;
    --no-x-check | --no-opengl-files | --no-check-for-alternate-installs | --dkms) ;;
    --kernel-module-type=open | --kernel-module-type=proprietary) [ "${version%%.*}" -ge 560 ] || fail "unrecognized option: '$word'" ;;
    --kernel-module-build-directory=kernel-open) ;;
    --allow-installation-with-running-driver) running=1 ;;
    *) fail "unrecognized option: '$word'" ;;
  esac
done
echo "$*" >"$root/arguments"
[ -n "$silent" ] || fail "it asks questions, which a test cannot answer"
[ ! -e "$root/sys/module/nouveau" ] || fail "The Nouveau kernel driver is currently in use by your system."
if [ -e "$root/proc/driver/nvidia/version" ] && [ -z "$running" ]; then
  fail "An NVIDIA kernel module 'nvidia' appears to already be loaded in your kernel."
fi
rm -rf "$root/var/lib/nvidia"
mkdir -p "$root/var/lib/nvidia"
chmod 700 "$root/var/lib/nvidia"
printf '1.0-%s (%s)\nNVIDIA Accelerated Graphics Driver for Linux-x86_64\n' "$(echo "$version" | tr -d .)" "$version" \
  >"$root/var/lib/nvidia/log"
cat >"$root/usr/bin/nvidia-uninstall" <<'END'
#!/bin/sh
[ "$*" = "--silent --skip-module-unload" ] || exit 1
rm -rf "$STANDIN_ROOT/var/lib/nvidia" "$STANDIN_ROOT/usr/bin/nvidia-uninstall" "$STANDIN_ROOT/usr/bin/nvidia-smi"
END
chmod 755 "$root/usr/bin/nvidia-uninstall"
printf '0: /usr/bin/nvidia-uninstall\n1\n' >>"$root/var/lib/nvidia/log"
[ ! -e "$root/broken" ] || fail "Unable to build the kernel module. (No space left on device)"
touch "$root/usr/bin/nvidia-smi"
