"""The black-box probe: what somebody's RoPE does, found by asking it."""
