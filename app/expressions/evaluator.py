"""The evaluator that the token executor is given: expressions of either language, errors as errors of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from app.expressions import cel_script, juel
from app.expressions.juel import Surroundings
from app.expressions.meaning import Misfit
from app.expressions.syntax import SyntaxFault
from app.process.board import ModelError
from app.process.graph import Expression

MOST_WORK_AT_ONCE: Final = 20_000_000
"""What all scripts of one advance may come to (see app/expressions/cel_work.py): a loop would add up to hours."""


def evaluator(surroundings: Surroundings) -> Callable[[Expression, Mapping[str, Any]], Any]:
    """A function that gives an expression's value; it raises ModelError, which shows the expression and no value.

    One is for one advance: scripts are bounded one by one, and all that it runs together.
    """
    left = MOST_WORK_AT_ONCE

    def evaluate(expression: Expression, variables: Mapping[str, Any]) -> Any:
        nonlocal left
        try:
            if expression.language == "cel":
                value, work = cel_script.run(expression.text, variables, left)
                left -= work
                return value
            return juel.run(expression.text, variables, surroundings)
        except (Misfit, SyntaxFault) as fault:
            raise ModelError(f"{expression.text}: {fault}") from None
        except RecursionError:  # whoever calls has used up nearly all of the stack
            raise ModelError(f"{expression.text}: it is nested too deep") from None

    return evaluate


def fault_in(expression: Expression) -> str | None:
    """Why an expression cannot be run, found without running it; None when it can."""
    try:
        if expression.language == "cel":
            cel_script.compiled(expression.text)
        elif expression.language == "juel":
            juel.compiled(expression.text)
        else:
            return f"the language {expression.language} is not known; there are juel and cel"
    except SyntaxFault as fault:
        return str(fault)
    except RecursionError:
        return "it is nested too deep"
    return None
