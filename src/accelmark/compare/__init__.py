"""Records beside each other: matching, normalising, ratios. Pure functions; nothing here reads or prints."""
