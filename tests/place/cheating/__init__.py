"""Programs whose placement is not what their card asks for, by what they do elsewhere."""
