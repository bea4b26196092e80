"""`python -m ropewalk`: the command line."""

from .cli import main

main(prog_name="ropewalk")
