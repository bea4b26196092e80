"""read(): any model's configuration to a Model."""
