"""What the report of a replica fit shows: pictures, page."""
