"""What foreign code raises, in one line."""


def first_line(error: BaseException) -> str:
    """Give the type and the first line of an error, of one that has no words or cannot be written too.

    >>> first_line(KeyError("cos")), first_line(ValueError())
    ("KeyError: 'cos'", 'ValueError')
    """
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # foreign code writes it
        lines = []
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
