"""How a number is obtained: clock, windows, memory, energy, sensors, and what the machine is."""
