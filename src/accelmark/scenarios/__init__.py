"""What is measured: each scenario turns a Job into samples, inside a worker process."""
