"""What the command line says when it ends: five exit codes, and the one exception that carries them."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes are part of the interface: scripts branch on them, so a number never changes its meaning."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    PROBLEMS = 4


EXIT_CODES = (
    "Exit codes: 0 done; 1 what was asked for failed, was not found or was refused; 2 wrong usage or setting; "
    "3 database or broker unreachable; 4 'doctor' found problems."
)


class Stop(Exception):
    """Ends the command with `code` and one line on stderr; nothing else is printed."""

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
