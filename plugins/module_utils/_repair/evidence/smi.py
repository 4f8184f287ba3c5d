# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What ``nvidia-smi -q -x`` tells of GPUs: what names a board to who made it, and the signs of its faults."""

from __future__ import annotations

import typing as t
import xml.etree.ElementTree as ET

from ..._base.text.shown import cut, printable
from ..selection import parse_pci_address
from .state import EvidenceGpu

MOST_GPUS = 128
ABSENT = ("", "N/A", "None", "[N/A]", "Not Supported")
# Our names for what stands at these places below a GPU. Branches have not had all of them from the beginning.
FACTS: t.Mapping[str, str] = {
    "model": "product_name",
    "serial": "serial",
    "board_part_number": "board_part_number",
    "gpu_part_number": "gpu_part_number",
    "fru_part_number": "gpu_fru_part_number",
    "board_id": "board_id",
    "module_id": "gpu_module_id",
    "vbios": "vbios_version",
    "inforom_image": "inforom_version/img_version",
    "inforom_oem": "inforom_version/oem_object",
    "inforom_ecc": "inforom_version/ecc_object",
    "inforom_power": "inforom_version/pwr_object",
    "gsp_firmware": "gsp_firmware_version",
    "recovery_action": "gpu_recovery_action",
    "reset_required": "gpu_reset_status/reset_required",
    "drain_and_reset_recommended": "gpu_reset_status/drain_and_reset_recommended",
    "remapped_rows_correctable": "remapped_rows/remapped_row_corr",
    "remapped_rows_uncorrectable": "remapped_rows/remapped_row_unc",
    "remapped_rows_pending": "remapped_rows/remapped_row_pending",
    "remapped_rows_failure": "remapped_rows/remapped_row_failure",
    "sram_threshold_exceeded": "ecc_errors/aggregate/sram_threshold_exceeded",
}


def parse_gpus(text: str) -> t.Tuple[EvidenceGpu, ...]:
    """Return the GPUs of an answer.

    Raises:
        ValueError: if it is no answer of nvidia-smi.
    """
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise ValueError(str(error)) from error
    gpus = []
    for node in root.findall("gpu")[:MOST_GPUS]:
        facts = {name: _text(node.findtext(place)) for name, place in FACTS.items()}
        facts = {name: fact for name, fact in facts.items() if fact}
        address = parse_pci_address(_text(node.get("id")))
        gpus.append(EvidenceGpu(_text(node.findtext("uuid")), address, facts))
    return tuple(gpus)


def _text(value: t.Optional[str]) -> str:
    text = printable(cut((value or "").strip()))
    return "" if text in ABSENT else text
