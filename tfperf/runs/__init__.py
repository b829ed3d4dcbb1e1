"""One run from card to report: opening its directory, its inputs, its parts."""
