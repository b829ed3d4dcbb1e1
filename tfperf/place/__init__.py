"""Devices, placement of variables on them, and the engines that train there."""
