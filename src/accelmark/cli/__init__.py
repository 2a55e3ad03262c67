"""The command line: one module a verb. Nothing imports it."""
