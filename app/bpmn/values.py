"""Texts of a model that may hold expressions: read, checked, and told to the report when they cannot be run."""

from __future__ import annotations

from typing import Final

from app.bpmn.markup import Element
from app.bpmn.names import bpmn, camunda_children, extensions
from app.bpmn.options import Options
from app.bpmn.problems import Report
from app.expressions import juel
from app.expressions.evaluator import fault_in
from app.expressions.syntax import has_expression
from app.process.graph import Assignment, Expression, Table, Value

RUNNABLE: Final = ("cel", "juel")
"""The languages of scripts that we run."""


def text_of(element: Element | None) -> str:
    return "" if element is None else element.text.strip()


def expression_in(
    text: str, report: Report, element: Element, *, line: int | None = None, language: str = "juel", what: str = ""
) -> Expression:
    """An expression, whose faults are in the report; `what` it is, in a message."""
    expression = Expression(text, language)
    if (fault := fault_in(expression)) is not None:
        where = element.line if line is None else line
        report.error(element.id, where, f"the {what or 'expression'} {shown(text)} cannot be run: {fault}")
    return expression


def text_or_expression(text: str, report: Report, element: Element, *, line: int | None = None) -> Expression | str:
    """A constant, or an expression when the text holds one."""
    return expression_in(text, report, element, line=line) if has_expression(text) else text


def condition_of(flow: Element, report: Report) -> Expression | None:
    """The condition of a sequence flow."""
    condition = flow.child(bpmn("conditionExpression"))
    if condition is None:
        return None
    language = (condition.get("language") or "juel").strip().lower()
    text = text_of(condition)
    if not text:
        report.error(flow.id, condition.line, "the condition is empty")
        return None
    expression = expression_in(text, report, flow, line=condition.line, language=language, what="condition")
    if language == "juel" and fault_in(expression) is None and not _is_one_expression(text):
        report.error(flow.id, condition.line, "a condition is one expression: ${…}")
    return expression


def parameters(activity: Element, kind: str, options: Options, report: Report) -> tuple[Assignment, ...]:
    """The input or output parameters (`inputParameter`, `outputParameter`) of an activity or event."""
    found = []
    for holder in extensions(activity, "inputOutput"):
        for parameter in camunda_children(holder, kind):
            name = parameter.get("name")
            if not name:
                report.error(activity.id, parameter.line, f"an {kind} has no name")
            elif options.unrunnable == "ignore" and (script := _unrunnable_script(parameter)) is not None:
                language = script.get("scriptFormat") or "no language"
                report.warning(activity.id, script.line, f"the {kind} {name} is left out: its script is in {language}")
            else:
                found.append(Assignment(name, value_of(parameter, activity, report)))
    return tuple(found)


def value_of(holder: Element, activity: Element, report: Report) -> Value:
    """What a parameter, a list's value or a map's entry holds: text, an expression, a list, a map or a script."""
    if holder.name[1] == "script":
        return script_in(holder, holder.get("scriptFormat"), activity, report)
    if not holder.children:
        text = text_of(holder)
        return text_or_expression(text, report, activity, line=holder.line) if text else None
    child = holder.children[0]
    match child.name[1]:
        case "list":
            return [value_of(item, activity, report) for item in child.children]
        case "map":
            return _map(child, activity, report)
        case "script":
            return value_of(child, activity, report)
    report.error(activity.id, child.line, f"a parameter cannot hold {child.name[1]}")
    return None


def _map(holder: Element, activity: Element, report: Report) -> Value:
    entries = [entry for entry in holder.children if entry.name[1] == "entry"]
    keys = [text_or_expression(entry.get("key") or "", report, activity, line=entry.line) for entry in entries]
    values = [value_of(entry, activity, report) for entry in entries]
    if any(isinstance(key, Expression) for key in keys):
        return Table(tuple(zip(keys, values, strict=True)))
    return {str(key): value for key, value in zip(keys, values, strict=True)}


def is_runnable(language: str | None) -> bool:
    return (language or "").strip().lower() in RUNNABLE


def script_in(script: Element | None, language: str | None, activity: Element, report: Report) -> Expression:
    """A script in a language that we run."""
    line = activity.line if script is None else script.line
    text = text_of(script)
    if not is_runnable(language):
        named = shown(language or "no language")
        report.error(activity.id, line, f"scripts in {named} cannot be run; there are {' and '.join(RUNNABLE)}")
    elif not text:
        report.error(activity.id, line, "the script is empty")
    else:
        return expression_in(
            text, report, activity, line=line, language=(language or "").strip().lower(), what="script"
        )
    return Expression(text, RUNNABLE[0])


def shown(text: str) -> str:
    """A piece of the model in a message: on one line, and not too long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 100 else flat[:99] + "…"


def _is_one_expression(text: str) -> bool:
    found = juel.compiled(text)
    return len(found) == 1 and not isinstance(found[0], str)


def _unrunnable_script(parameter: Element) -> Element | None:
    scripts = (element for element in parameter.walk() if element.name[1] == "script")
    return next((script for script in scripts if not is_runnable(script.get("scriptFormat"))), None)
