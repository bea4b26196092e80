"""How the page writes numbers, and what it says of an address that it could not take."""

from markupsafe import Markup

from .i18n import Speech
from .state import Message, number_text


def message_words(message: Message, _: Speech) -> Markup:
    """Say what is wrong with one parameter of the address."""
    given = {"parameter": message.parameter, "given": message.given}
    match message.kind:
        case "unknown":
            return _("The address has an unknown parameter {parameter}; it is left out.", **given)
        case "whole":
            low, high = number_text(message.low or 0), number_text(message.high or 0)
            return _(
                "{parameter} must be a whole number from {low} to {high}, got {given}.", low=low, high=high, **given
            )
        case "number":
            low, high = number_text(message.low or 0), number_text(message.high or 0)
            return _("{parameter} must be a number from {low} to {high}, got {given}.", low=low, high=high, **given)
        case "vector":
            return _("{parameter} must be 1 to {high} numbers with commas between, got {given}.", high=1024, **given)
        case "too-many":
            return _("The address has too many parameters; all are left out.")
        case "model":
            return _("There is no preset {given}.", given=message.given)
        case "choice" if message.choices:
            return _("{parameter} must be one of {choices}, got {given}.", choices=", ".join(message.choices), **given)
        case _:
            return _("{parameter} cannot be {given}.", **given)


def fixed(value: float | None, digits: int = 6) -> str:
    """Write a number with a fixed count of decimals and a decimal dot, as figures, tables and readings do."""
    return "–" if value is None else f"{value:.{digits}f}"


def signed(value: float, digits: int = 3) -> str:
    """Write a number with its sign where it is negative, and 0 without one."""
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("-") and float(text) == 0 else text


def noise(value: float) -> str:
    """Write float noise as it is, "1.1e-16", and exactly 0 as "0".

    >>> noise(1.1102230246251565e-16), noise(0.0)
    ('1.1e-16', '0')
    """
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"
