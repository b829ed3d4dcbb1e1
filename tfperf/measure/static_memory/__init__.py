"""What a traced step needs of a device's memory, estimated by liveness: nothing runs."""
