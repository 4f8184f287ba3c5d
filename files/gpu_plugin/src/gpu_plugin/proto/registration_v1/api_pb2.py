# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The message classes of api.proto, built at import from its compiled description, api.binpb."""

from __future__ import annotations

from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.internal import builder

_description = descriptor_pb2.FileDescriptorSet.FromString(
    Path(__file__).with_name("api.binpb").read_bytes()
)
DESCRIPTOR = descriptor_pool.Default().AddSerializedFile(_description.file[0].SerializeToString())
builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, __name__, globals())
