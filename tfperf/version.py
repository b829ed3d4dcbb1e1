"""The version of tfperf."""

VERSION = "0.2.0.dev0"
