"""Numbers back to what made them: frequencies out of rows of cos and sin, theta and a scaling out of frequencies.

`rows` recovers frequencies from tables, `scalings` and `bands` fit the known scalings to a ladder of frequencies,
`numbers` finds the roundest numbers that a measurement allows.
"""
