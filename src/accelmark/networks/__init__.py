"""The networks: what is measured, one file a family. They know nothing of scenarios or devices."""
