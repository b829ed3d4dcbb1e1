"""Words for people: every line, table and bar that tfperf shows goes through here, and none of them ends a verb."""
