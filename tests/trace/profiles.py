"""Profiles made by hand, built with TensorFlow's own message classes."""

from tfperf.trace.hlo_names import METADATA_PLANE, MODULE_STAT, build_message_class
from tfperf.trace.planes import load_xplane_proto


def write(path, planes, modules=(), warnings=()):
    """planes: {name: {line: (timestamp_ns, [(event, offset_ps, duration_ps, {stat: value})])}}.

    modules: {name: [(instruction, opcode, op_name, operands)]}, operands by position in the list.
    """
    space = load_xplane_proto().XSpace(warnings=warnings)
    for name in modules:
        _add_module(space, name, modules[name])
    for name, lines in planes.items():
        plane, ids, keys = space.planes.add(name=name), {}, {}
        for line_name, (start, events) in lines.items():
            line = plane.lines.add(name=line_name, timestamp_ns=start)
            for event, offset, duration, stats in events:
                number = ids.setdefault(event, len(ids) + 1)
                plane.event_metadata[number].id, plane.event_metadata[number].name = number, event
                row = line.events.add(metadata_id=number, offset_ps=offset, duration_ps=duration)
                for key, value in stats.items():
                    k = keys.setdefault(key, len(keys) + 1)
                    plane.stat_metadata[k].id, plane.stat_metadata[k].name = k, key
                    if key == "hlo_module":  # its value is the name of another stat, as TensorFlow writes it
                        v = keys.setdefault(value, len(keys) + 1)
                        plane.stat_metadata[v].id, plane.stat_metadata[v].name = v, value
                        row.stats.add(metadata_id=k, ref_value=v)
                        continue
                    field = "str_value" if isinstance(value, str) else "int64_value"
                    row.stats.add(metadata_id=k, **{field: value})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(space.SerializeToString())
    return path


def _add_module(space, name, instructions):
    hlo = build_message_class()()
    hlo.hlo_module.name = name
    computation = hlo.hlo_module.computations.add(id=1, name="main")
    for number, (instruction, opcode, op_name, operands) in enumerate(instructions):
        one = computation.instructions.add(id=number, name=instruction, opcode=opcode, operand_ids=operands)
        one.metadata.op_name = op_name
    plane = next((p for p in space.planes if p.name == METADATA_PLANE), None) or space.planes.add(name=METADATA_PLANE)
    plane.stat_metadata[1].name = MODULE_STAT
    metadata = plane.event_metadata[len(plane.event_metadata) + 1]
    metadata.stats.add(metadata_id=1, bytes_value=hlo.SerializeToString())


def us(*events):
    """A line from events (name, begin, duration) in microseconds; a fourth member holds stats."""
    return 0, [(name, int(begin * 1e6), int(length * 1e6), *(more or [{}])) for name, begin, length, *more in events]
