"""Networks that play games."""
