"""Profiles made by hand, built with TensorFlow's own message classes."""

from tfperf.trace.planes import xplane_proto


def write(path, planes):
    """planes: {name: {line: (timestamp_ns, [(event, offset_ps, duration_ps, {stat: value})])}}."""
    space = xplane_proto().XSpace()
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
                    field = "str_value" if isinstance(value, str) else "int64_value"
                    row.stats.add(metadata_id=k, **{field: value})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(space.SerializeToString())
    return path


def us(*events):
    """A line from events (name, begin, duration) in microseconds; a fourth member holds stats."""
    return 0, [(name, int(begin * 1e6), int(length * 1e6), *(more or [{}])) for name, begin, length, *more in events]
