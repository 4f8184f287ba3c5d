# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The options of the driver's kernel modules, as NVIDIA's open kernel modules declare them, release by release.

The proprietary modules are built with the same declarations. Betas and the Vulkan developer's releases are left out.
"""

from __future__ import annotations

import typing as t

from .values import (
    ANY,
    DWORDS,
    DWORDS_PER_DEVICE,
    FLAG,
    INTEGER,
    MASK,
    MODE,
    PATH,
    UUIDS,
    Kind,
    choice,
    numbers,
)

READ = "2026-11-26"
# The last release that was read of each branch.
RELEASES = """
515.105.01 520.61.07 525.147.05 530.41.03 535.288.01 545.29.06 550.163.01 555.58.02 560.35.03 565.77 570.211.01
575.64.05 580.142 590.48.01 595.45.04
"""
LAST = {release.partition(".")[0]: release for release in RELEASES.split()}
OLDEST, NEWEST = min(LAST), max(LAST)
SOURCE = "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/kernel-open"
# Where each module declares its options.
SOURCES = {
    "nvidia": f"{SOURCE}/nvidia/nv-reg.h {SOURCE}/nvidia/linux_nvswitch.c",
    "nvidia_uvm": f"{SOURCE}/nvidia-uvm",
    "nvidia_modeset": f"{SOURCE}/nvidia-modeset/nvidia-modeset-linux.c",
    "nvidia_drm": f"{SOURCE}/nvidia-drm/nvidia-drm-linux.c",
    "nvidia_peermem": f"{SOURCE}/nvidia-peermem/nvidia-peermem.c",
}
EVERY = "-"
ESXI = "it is for VMware ESXi, and nothing on Linux"
POWER9 = "it is for POWER systems"
TEGRA = "it is for Tegra"
UNSAFE = "NVIDIA calls it unsafe outside of tests"


class Option(t.NamedTuple):
    """An option, with its default, empty if there is none or the driver decides, and what it does.

    ``branches`` are the releases that know it, as ranges of branches or versions, of which either end may be open.
    ``note`` is what whoever sets it is told, with the releases in ``noted``. ``only`` is the type of kernel modules
    that heed it, ``shown`` the name that the driver has for it in /proc/driver/nvidia/params where that is another one.
    """

    kind: Kind
    default: str
    says: str
    branches: str = EVERY
    note: str = ""
    noted: str = EVERY
    only: str = ""
    shown: str = ""


NVIDIA: t.Dict[str, Option] = {
    "CoherentGPUMemoryMode": Option(
        choice("driver", "numa"),
        "numa",
        "who has a GPU's coherent memory on GH200 and GB200; Kubernetes counts it as the node's unless it is `driver`",
        "580-",
    ),
    "CreateImexChannel0": Option(
        FLAG, "0", "create IMEX channel 0, which all users of the node share then", "555-"
    ),
    "DeviceFileGID": Option(numbers(0), "0", "group of the device nodes"),
    "DeviceFileMode": Option(MODE, "0666", "mode of the device nodes"),
    "DeviceFileUID": Option(numbers(0), "0", "owner of the device nodes"),
    "DmaRemapPeerMmio": Option(FLAG, "1", "map memory of other devices through the IOMMU"),
    "DynamicPowerManagement": Option(
        numbers(0, 3), "3", "power a GPU down never, unused, idle, or idle in notebooks only"
    ),
    "DynamicPowerManagementVideoMemoryThreshold": Option(
        numbers(0, unit="MiB"), "200", "memory in use above which an idle GPU keeps it powered"
    ),
    "EnableDbgBreakpoint": Option(FLAG, "0", "break into a debugger where an assertion fails"),
    "EnableGpuFirmware": Option(
        numbers(0, 0x32),
        "18",
        "without the GPU's firmware (0), with it (1), or as the driver decides (2); 16 more: without where it fails",
        only="proprietary",
    ),
    "EnableGpuFirmwareLogs": Option(
        numbers(0, 2), "2", "the firmware's log in the kernel's: never, always, in debug builds"
    ),
    "EnableMSI": Option(FLAG, "1", "interrupts by messages"),
    "EnableNonblockingOpen": Option(
        FLAG,
        "1",
        "initialize a GPU in the background where its node is opened with O_NONBLOCK",
        "550-",
    ),
    "EnablePCIERelaxedOrderingMode": Option(
        FLAG, "0", "set the relaxed ordering bit in all writes of a GPU"
    ),
    "EnablePCIeGen3": Option(
        FLAG, "0", "PCIe 3 for Kepler GPUs", note="NVIDIA calls it unsupported"
    ),
    "EnableResizableBar": Option(FLAG, "0", "make BAR1 as large as the GPU's memory", "530-"),
    "EnableS0ixPowerManagement": Option(FLAG, "0", "suspend by S0ix, in notebooks"),
    "EnableStreamMemOPs": Option(
        FLAG, "0", "CUDA's memory operations in streams, for network stacks"
    ),
    "EnableSystemMemoryPools": Option(
        MASK, "529", "sizes of pages of which freed ones are kept", "590-", only="open"
    ),
    "EnableUserNUMAManagement": Option(
        FLAG, "1", "a GPU's coherent memory is the node's, on POWER9 and GH200"
    ),
    "ExcludeAllGpus": Option(FLAG, "0", "leave all GPUs alone", "595-"),
    "ExcludedGpus": Option(UUIDS, "", "leave these GPUs alone, such as broken ones"),
    "GpuBlacklist": Option(
        UUIDS,
        "",
        "the former name of NVreg_ExcludedGpus",
        note="it is deprecated: write NVreg_ExcludedGpus, which wins over it",
    ),
    "GpuInitOnProbe": Option(FLAG, "0", "initialize GPUs when the module is loaded", "595-"),
    "GrdmaPciTopoCheckOverride": Option(
        numbers(0, 2),
        "0",
        "GPUDirect RDMA by what the driver finds of the PCI topology (0), always (1), never (2)",
        "570-",
    ),
    "IgnoreMMIOCheck": Option(FLAG, "0", "skip a check of limits", note=ESXI),
    "ImexChannelCount": Option(
        numbers(0, 1 << 20),
        "2048",
        "how many IMEX channels there are, the same on all nodes of an IMEX domain",
        "550-",
    ),
    "InitializeSystemMemoryAllocations": Option(
        FLAG, "1", "clear system memory; with 0 programs may see what others have left in it"
    ),
    "KMallocHeapMaxSize": Option(numbers(0, unit="MiB"), "0", "limit of a heap", note=ESXI),
    "MemoryPoolSize": Option(numbers(0, unit="GiB"), "0", "size of a pool of memory", note=ESXI),
    "ModifyDeviceFiles": Option(FLAG, "1", "make the device nodes, and put them right"),
    "NvLinkDisable": Option(
        FLAG,
        "0",
        "no NVLink, such as with a broken fabric",
        note="it takes a reboot: the driver's reload does not do",
    ),
    "OpenRmEnableUnsupportedGpus": Option(
        FLAG,
        "",
        "run GPUs that are not for data centers with the open kernel modules",
        note="it is ignored: the open kernel modules run such GPUs without it",
        noted="545-",
        only="open",
    ),
    "PreserveVideoMemoryAllocations": Option(
        numbers(0, 2), "", "save the GPU's memory when the machine suspends"
    ),
    "RegisterPCIDriver": Option(FLAG, "1", "drive GPUs on PCI"),
    "RegisterPlatformDeviceDriver": Option(FLAG, "1", "drive Tegra's GPU", "580-", note=TEGRA),
    "RegistryDwords": Option(DWORDS, "", "settings by which NVIDIA's support asks for others"),
    "RegistryDwordsPerDevice": Option(DWORDS_PER_DEVICE, "", "the same, for one GPU"),
    "ResmanDebugLevel": Option(INTEGER, "-1", "how much is logged, in debug builds"),
    "RestrictProfilingToAdminUsers": Option(
        FLAG,
        "1",
        "0 lets all users read performance counters, as Nsight and profilers do",
        shown="RmProfilingAdminOnly",
    ),
    "RmLogonRC": Option(FLAG, "1", "NVIDIA does not say"),
    "RmMsg": Option(ANY, "", "what is logged, in debug builds"),
    "RmNvlinkBandwidth": Option(
        choice("OFF", "MIN", "HALF", "3QUARTER", "FULL"),
        "FULL",
        "less bandwidth of NVLink 4 (Hopper), which saves power",
        "530-",
    ),
    "RmNvlinkBandwidthLinkCount": Option(
        numbers(0), "0", "fewer links of NVLink 5 (Blackwell), which saves power", "565-"
    ),
    "S0ixPowerManagementVideoMemoryThreshold": Option(
        numbers(0, unit="MiB"), "256", "memory in use above which it is kept powered in S0ix"
    ),
    "TCEBypassMode": Option(numbers(0, 2), "0", "how DMA is mapped", "-565", note=POWER9),
    "TegraGpuPgMask": Option(INTEGER, "", "components with power", "590-", note=TEGRA),
    "TemporaryFilePath": Option(
        PATH, "/tmp", "folder for the GPU's memory when the machine suspends"
    ),
    "UseKernelSuspendNotifiers": Option(
        FLAG, "0", "save the GPU's memory without a service of systemd's", "595-"
    ),
    "UsePageAttributeTable": Option(
        numbers(-1, 1), "-1", "write-combining by the CPU's page attribute table"
    ),
    "VMallocHeapMaxSize": Option(numbers(0, unit="MiB"), "0", "limit of a heap", note=ESXI),
}

LOCATION = choice("auto", "vid", "sys")
UVM: t.Dict[str, Option] = {
    "ats_mode": Option(FLAG, "1", "0: no Address Translation Services, where a platform has them"),
    "block_cpu_to_cpu_copy_with_ce": Option(
        FLAG, "0", "move memory between CPUs by the GPU's copy engines", "550-"
    ),
    "channel_gpfifo_loc": Option(LOCATION, "auto", "where a queue of the GPU is"),
    "channel_gpput_loc": Option(LOCATION, "auto", "where the end of it is"),
    "channel_num_gpfifo_entries": Option(
        numbers(32, 1 << 20), "1024", "length of it, a power of 2"
    ),
    "channel_pushbuffer_loc": Option(LOCATION, "auto", "where commands for the GPU are"),
    "conf_computing_channel_iv_rotation_limit": Option(
        numbers(2342, 0xFFFFFFFE),
        "2147483648",
        "when keys change in confidential computing",
        "550-",
    ),
    "cpu_chunk_allocation_sizes": Option(
        choice("0x1000", "0x11000", "0x201000", "0x211000", "0x10000", "0x210000"),
        "",
        "sizes of pages of system memory, the machine's own among them",
    ),
    "debug_enable_push_acquire_info": Option(FLAG, "0", "for debugging"),
    "debug_enable_push_desc": Option(FLAG, "0", "for debugging"),
    "debug_prints": Option(FLAG, "0", "log more"),
    "disable_hmm": Option(
        FLAG,
        "",
        "1: no Heterogeneous Memory Management; 0 by default on x86, 1 elsewhere and with 530",
    ),
    "downgrade_force_membar_sys": Option(FLAG, "1", "for debugging", "530-"),
    "enable_builtin_tests": Option(
        FLAG, "0", "let programs run the module's own tests", note=UNSAFE
    ),
    "enable_debug_procfs": Option(FLAG, "0", "for debugging"),
    "enable_va_space_mm": Option(FLAG, "1", "follow a process' memory, as ATS and HMM need"),
    "exp_gpu_cache_peermem": Option(FLAG, "0", "cache the memory of other GPUs", note=UNSAFE),
    "exp_gpu_cache_sysmem": Option(FLAG, "0", "cache system memory", note=UNSAFE),
    "exp_perf_prefetch_ats_order_non_replayable": Option(
        numbers(0), "0", "how much is fetched ahead with ATS", "525-535.98"
    ),
    "exp_perf_prefetch_ats_order_replayable": Option(
        numbers(0), "0", "how much is fetched ahead with ATS", "525-535.98"
    ),
    "fault_force_sysmem": Option(FLAG, "0", "system memory for pages that a GPU lacks"),
    "force_prefetch_fault_support": Option(FLAG, "0", "on Pascal GPUs", "-590"),
    "global_oversubscription": Option(FLAG, "1", "0: no more managed memory than a GPU has"),
    "leak_checker": Option(numbers(0, 2), "0", "for debugging"),
    "page_table_location": Option(choice("vid", "sys"), "", "where page tables are"),
    "peer_copy": Option(
        choice("phys", "virt"), "phys", "addresses of copies between GPUs, from Ampere on"
    ),
    "perf_access_counter_batch_count": Option(numbers(1), "256", "how many are served at once"),
    "perf_access_counter_granularity": Option(
        choice("64k", "2m", "16m", "16g"), "2m", "memory of a counter", "-535.113.01 545-545"
    ),
    "perf_access_counter_migration_enable": Option(
        INTEGER,
        "-1",
        "move memory that a GPU reads often to it: never (0), always (1)",
        "570.133.07-",
    ),
    "perf_access_counter_mimc_migration_enable": Option(
        INTEGER, "-1", "the same, before 570.133.07", "-570.124.06"
    ),
    "perf_access_counter_momc_migration_enable": Option(
        INTEGER, "-1", "the same, for memory of others", "-570.124.06"
    ),
    "perf_access_counter_threshold": Option(numbers(1, 65535), "256", "how often that is"),
    "perf_fault_batch_count": Option(numbers(1), "256", "page faults that are read at once"),
    "perf_fault_coalesce": Option(FLAG, "1", "join page faults"),
    "perf_fault_max_batches_per_service": Option(numbers(0), "20", "limit of page faults"),
    "perf_fault_max_throttle_per_service": Option(numbers(0), "5", "limit of page faults"),
    "perf_fault_replay_policy": Option(numbers(0, 3), "2", "when page faults are replayed"),
    "perf_fault_replay_update_put_ratio": Option(numbers(0), "50", "in percent"),
    "perf_lapse_vote_threshold": Option(numbers(0), "32", "of thrashing", "590-"),
    "perf_map_remote_on_eviction": Option(FLAG, "1", "map memory that had to leave a GPU"),
    "perf_map_remote_on_native_atomics_fault": Option(FLAG, "0", "map memory of atomics"),
    "perf_migrate_cpu_preunmap_block_order": Option(numbers(0, 10), "2", "of memory that moves"),
    "perf_migrate_cpu_preunmap_enable": Option(FLAG, "1", "of memory that moves"),
    "perf_pma_batch_nonpinned_order": Option(numbers(0), "6", "how much is allocated at once"),
    "perf_prefetch_enable": Option(FLAG, "1", "fetch managed memory ahead"),
    "perf_prefetch_min_faults": Option(numbers(1, 20), "1", "page faults before that"),
    "perf_prefetch_threshold": Option(numbers(0), "51", "percent of a region before that"),
    "perf_reenable_prefetch_faults_lapse_msec": Option(numbers(0), "1000", "in ms; 0 never pauses"),
    "perf_thrashing_enable": Option(FLAG, "1", "look for memory that goes back and forth"),
    "perf_thrashing_epoch": Option(numbers(0), "2000", "when that has ended"),
    "perf_thrashing_lapse_usec": Option(numbers(0), "500", "the time that counts, in microseconds"),
    "perf_thrashing_max_resets": Option(numbers(0), "4", "how many times that starts"),
    "perf_thrashing_nap": Option(numbers(0, 100), "1", "how long a processor waits"),
    "perf_thrashing_pin": Option(numbers(0), "300", "how long memory stays; 0 forever"),
    "perf_thrashing_pin_threshold": Option(numbers(0, 255), "10", "waits before it stays"),
    "perf_thrashing_threshold": Option(numbers(0, 7), "3", "events before one waits"),
    "release_asserts": Option(FLAG, "1", "check assertions", "515.76-"),
    "release_asserts_dump_stack": Option(FLAG, "0", "log the stack where one fails", "515.76-"),
    "release_asserts_set_global_error": Option(
        FLAG, "0", "stop managed memory where one fails", "515.76-"
    ),
}
MODESET: t.Dict[str, Option] = {
    "conceal_vrr_caps": Option(FLAG, "0", "hide variable refresh rates", "575-"),
    "config_file": Option(PATH, "", "settings of displays", "530-"),
    "debug": Option(INTEGER, "0", "log more", "580.95.05-"),
    "debug_force_color_space": Option(numbers(0), "0", "for debugging", "565-"),
    "disable_hdmi_frl": Option(FLAG, "0", "no fixed rate link of HDMI", "545-"),
    "disable_vrr_memclk_switch": Option(
        FLAG, "0", "one memory clock with VRR", "525.147.05-525 535.86.05-"
    ),
    "enable_overlay_layers": Option(FLAG, "1", "layers of displays", "570-"),
    "fail_alloc_core_channel": Option(INTEGER, "-1", "for tests", "570-", note=UNSAFE),
    "fail_malloc": Option(INTEGER, "-1", "for tests", note=UNSAFE),
    "force_api_to_hw_head_identity_mapping": Option(FLAG, "0", "heads", "530.41.03-530"),
    "hdmi_deepcolor": Option(
        FLAG, "1", "more than 8 bits a color; 0 by default in 545 and 550", "545-"
    ),
    "malloc_verbose": Option(FLAG, "0", "for debugging"),
    "opportunistic_display_sync": Option(FLAG, "1", "sync of displays", "535.146.02-535 550-"),
    "output_rounding_fix": Option(FLAG, "1", "rounding of colors; 0 by default in 515", "515.76-"),
    "vblank_sem_control": Option(FLAG, "1", "sync; 0 by default in 550", "550-590"),
}
DRM: t.Dict[str, Option] = {
    "fbdev": Option(FLAG, "", "the console on the GPU; 1 by default since 570", "545-"),
    "modeset": Option(
        FLAG, "", "kernel mode setting, as displays and Wayland need; 1 by default since 595"
    ),
}
PEERMEM: t.Dict[str, Option] = {
    "peerdirect_support": Option(FLAG, "0", "1 for MLNX_OFED 4.9 LTS"),
    "persistent_api_support": Option(FLAG, "1", "0 for drivers of NICs that lack it", "560-"),
}
TABLE: t.Dict[str, Option] = {
    **{f"nvidia.NVreg_{name}": option for name, option in NVIDIA.items()},
    "nvidia.NvSwitchBlacklist": Option(ANY, "", "UUIDs of NVSwitches to leave alone"),
    "nvidia.NvSwitchRegDwords": Option(
        ANY, "", "settings by which NVIDIA's support asks for others"
    ),
    **{f"nvidia_uvm.uvm_{name}": option for name, option in UVM.items()},
    **{f"nvidia_modeset.{name}": option for name, option in MODESET.items()},
    **{f"nvidia_drm.{name}": option for name, option in DRM.items()},
    **{f"nvidia_peermem.{name}": option for name, option in PEERMEM.items()},
}
