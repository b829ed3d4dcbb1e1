"""Where the time of steps goes: traces read, split into steps and phases."""
