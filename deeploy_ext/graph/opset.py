"""Brings a model from the opset it was exported with to the one that everything here works on."""

from __future__ import annotations

import onnx
import onnx.inliner
import onnx.version_converter

from deeploy_ext.errors import BadInputError
from deeploy_ext.operators import find
from deeploy_ext.operators.spec import OPSET, OWN

OLDEST = 7
"""First opset with numpy broadcasting; exporters of the last years write 9 and up."""


def opset_of(proto: onnx.ModelProto, origin: str) -> int:
    """Version of the standard operators that a model imports. Raises BadInputError when it imports none."""
    versions = [entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")]
    if not versions:
        raise BadInputError(f"{origin}: imports no standard operator set; export the model again, with opset {OPSET}.")
    return versions[0]


def to_opset(proto: onnx.ModelProto, origin: str) -> onnx.ModelProto:
    """The model in opset ``OPSET``; ``origin`` names it in messages.

    Older models go through onnx's version converter. Newer ones are relabelled if every operator in them still has the
    inputs, outputs and attributes that it had in ``OPSET``; the newer versions then only add element types. Operators that are
    newer than ``OPSET`` are known in the project's own domain.

    Raises:
        BadInputError: too old, newer than the installed onnx, not convertible, or an operator changed.
    """
    version, newest = opset_of(proto, origin), onnx.defs.onnx_opset_version()
    if not OLDEST <= version <= newest:
        raise BadInputError(
            f"{origin}: opset {version} is not supported ({OLDEST} to {newest} are); export with opset {OPSET}."
        )
    if proto.functions:
        proto = onnx.inliner.inline_local_functions(proto)
    if version > OPSET:
        return _relabelled(proto, origin, version)
    if version == OPSET:
        return proto
    made, names = onnx.ModelProto(), set[tuple[str, tuple[str, ...]]]()
    made.CopyFrom(proto)
    for node in made.graph.node:  # the converter stops at operators that are not in the standard
        if node.domain in ("", "ai.onnx") and not onnx.defs.has(node.op_type):
            node.domain = OWN
            names.add((node.op_type, tuple(node.output)))
    if names:
        made.opset_import.append(onnx.helper.make_opsetid(OWN, 1))
    try:
        converted = onnx.version_converter.convert_version(made, OPSET)
    except Exception as error:  # the converter raises whatever its C++ adapters throw
        what = " ".join(str(error).split())
        raise BadInputError(
            f"{origin}: cannot be brought from opset {version} to {OPSET} ({what[:200]}); export with opset {OPSET}."
        ) from error
    for node in converted.graph.node:
        if node.domain == OWN and (node.op_type, tuple(node.output)) in names:
            node.domain = ""
    return converted


def _relabelled(proto: onnx.ModelProto, origin: str, version: int) -> onnx.ModelProto:
    for node in proto.graph.node:
        if node.domain in ("", "ai.onnx") and not _same(node.op_type, version) and find(OWN, node.op_type) is None:
            raise BadInputError(
                f"{origin}: {node.name or 'unnamed node'} ({node.op_type}) of opset {version} is not what it was in "
                f"opset {OPSET}; export with opset {OPSET}."
            )
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    for entry in made.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = OPSET
    return made


def _same(op_type: str, version: int) -> bool:
    """Whether an operator kept inputs, outputs and attributes; one that neither version knows is reported elsewhere."""
    found: list[tuple[object, ...]] = []
    for at in (OPSET, version):
        try:
            schema = onnx.defs.get_schema(op_type, at)
        except onnx.defs.SchemaError:
            found.append(())
            continue
        attributes = {name: attribute.default_value.SerializeToString() for name, attribute in schema.attributes.items()}
        found.append(([o.name for o in schema.inputs], [o.name for o in schema.outputs], attributes))
    return found[0] == found[1]
