"""The one error class of ropewalk."""


class RopewalkError(ValueError):
    """Something given to ropewalk cannot be used: the message says what was given, what was expected and what to do."""
