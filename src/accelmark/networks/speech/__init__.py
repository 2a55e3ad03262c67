"""Networks that recognise and synthesise speech."""
