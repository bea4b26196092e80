"""The black-box probe: it finds out from outside which RoPE a function turns by, and what is wrong with it."""
