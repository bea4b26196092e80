"""The command line as a whole: help, version, errors."""

import re
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

import ropewalk
from ropewalk.cli import COMMANDS, main

NAMES = list(COMMANDS)


def run(*arguments, **options):
    return CliRunner().invoke(main, arguments, **options)


def command(name):
    found = main.get_command(click.Context(main), name)
    assert found is not None
    return found


def test_help_lists_every_command_with_an_uncut_line():
    done = run("--help", terminal_width=80)
    assert (done.exit_code, done.stderr) == (0, "")
    for name in NAMES:
        (line,) = re.findall(rf"^  {name} +(.+)$", done.stdout, re.MULTILINE)
        assert line.endswith(".")
        assert not line.endswith("...")


def test_help_says_what_exit_codes_mean():
    assert re.search(r"^    0  .*\n    1  .*\n    2  ", run("--help").stdout, re.MULTILINE)


@pytest.mark.parametrize("name", ["", *NAMES])
def test_help_has_two_to_four_examples_one_a_line(name):
    text = run(*filter(None, [name]), "--help", terminal_width=80).stdout
    _, _, tail = text.partition("  Examples:\n")
    examples = tail.splitlines()
    assert 2 <= len(examples) <= 4
    assert all(line.startswith(f"    ropewalk {name}") for line in examples)


@pytest.mark.parametrize("name", NAMES)
def test_examples_of_the_help_can_be_parsed(name):
    text = run(name, "--help").stdout
    for example in text.partition("Examples:\n")[2].splitlines():
        words = example.split()[1:]
        found = main.get_command(click.Context(main), words[0])
        assert found is not None
        found.make_context(words[0], words[1:]).close()


@pytest.mark.parametrize("name", NAMES)
def test_help_names_and_explains_every_option(name):
    text = run(name, "--help").stdout
    options = [one for one in command(name).params if isinstance(one, click.Option) and not one.hidden]
    assert options
    for option in options:
        assert option.help, option.name
        assert all(spelling in text for spelling in option.opts)


@pytest.mark.parametrize("name", ["", *NAMES])
def test_help_has_a_short_spelling_and_fits_80_columns(name):
    arguments = list(filter(None, [name]))
    text = run(*arguments, "--help", terminal_width=80).stdout
    assert text == run(*arguments, "-h", terminal_width=80).stdout
    assert max(map(len, text.splitlines())) <= 80


def test_version_is_the_packages():
    done = run("--version")
    assert (done.exit_code, done.stdout) == (0, f"ropewalk, version {ropewalk.__version__}\n")


@pytest.mark.parametrize("arguments", [["nope"], ["--nope"], ["inspect", "--nope"], ["verify", "x"], ["doctor", "x"]])
def test_a_call_that_cannot_be_understood_is_one_line_that_points_to_the_help(arguments):
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("ropewalk: ")
    assert line.endswith("--help.")


def test_a_process_answers_as_the_runner_does():
    python = [sys.executable, "-W", "error", "-m", "ropewalk"]
    help_ = subprocess.run([*python, "--help"], capture_output=True, text=True, check=False)
    assert (help_.returncode, help_.stderr) == (0, "")
    assert "Usage: ropewalk " in help_.stdout
    bad = subprocess.run([*python, "nope"], capture_output=True, text=True, check=False)
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (2, "", 1)
