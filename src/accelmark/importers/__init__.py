"""Other people's result files, read into Records. One module a format; none of them guesses a number."""
