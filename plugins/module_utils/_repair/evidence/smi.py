# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What ``nvidia-smi -q -x`` tells of GPUs: what names a board to who made it, and the signs of its faults."""

from __future__ import annotations

import typing as t
import xml.etree.ElementTree as ET

from ..._base.text.shown import cut, printable
from .state import Gpu

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


def gpus(text: str) -> t.Tuple[Gpu, ...]:
    """Return the GPUs of an answer. ValueError: it is none."""
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise ValueError(str(error)) from error
    return tuple(_gpu(one) for one in root.findall("gpu")[:MOST_GPUS])


def _gpu(node: ET.Element) -> Gpu:
    told = {name: _text(node.findtext(place)) for name, place in FACTS.items()}
    address = _text(node.get("id")).lower()[-12:]
    return Gpu(
        _text(node.findtext("uuid")), address, {key: one for key, one in told.items() if one}
    )


def _text(found: t.Optional[str]) -> str:
    words = printable(cut((found or "").strip()))
    return "" if words in ABSENT else words
