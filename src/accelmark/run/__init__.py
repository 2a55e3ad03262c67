"""From what the user asked for to Records: suites, planning, isolation, launching."""
