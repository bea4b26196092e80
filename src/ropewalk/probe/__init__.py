"""check(): the black-box probe, its verdicts, and the gallery of known faults."""
