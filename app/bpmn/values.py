"""Texts of a model that may hold expressions: read, checked, and told to the report when they cannot be run."""

from __future__ import annotations

from app.bpmn.markup import Element
from app.bpmn.names import bpmn, camunda_children, extensions
from app.bpmn.problems import Report
from app.expressions.evaluator import fault_in
from app.expressions.syntax import has_expression
from app.process.graph import Assignment, Expression, Value


def text_of(element: Element | None) -> str:
    return "" if element is None else element.text.strip()


def expression_in(text: str, report: Report, element: Element, language: str = "juel") -> Expression:
    """An expression, whose faults are in the report."""
    expression = Expression(text, language)
    if (fault := fault_in(expression)) is not None:
        report.error(element.id, element.line, f"the expression {shown(text)} cannot be run: {fault}")
    return expression


def text_or_expression(text: str, report: Report, element: Element) -> Expression | str:
    """A constant, or an expression when the text holds one."""
    return expression_in(text, report, element) if has_expression(text) else text


def condition_of(flow: Element, report: Report) -> Expression | None:
    """The condition of a sequence flow."""
    condition = flow.child(bpmn("conditionExpression"))
    if condition is None:
        return None
    language = (condition.get("language") or "juel").lower()
    text = text_of(condition)
    if not text:
        report.error(flow.id, condition.line, "the condition is empty")
        return None
    if language == "juel" and not has_expression(text):
        report.error(flow.id, condition.line, "a condition is an expression: ${…}")
        return None
    expression = Expression(text, language)
    if (fault := fault_in(expression)) is not None:
        report.error(flow.id, condition.line, f"the condition {shown(text)} cannot be run: {fault}")
    return expression


def parameters(activity: Element, kind: str, report: Report) -> tuple[Assignment, ...]:
    """The input or output parameters (`inputParameter`, `outputParameter`) of an activity."""
    found = []
    for holder in extensions(activity, "inputOutput"):
        for parameter in camunda_children(holder, kind):
            name = parameter.get("name")
            if not name:
                report.error(activity.id, parameter.line, f"an {kind} has no name")
                continue
            found.append(Assignment(name, value_of(parameter, activity, report)))
    return tuple(found)


def value_of(holder: Element, activity: Element, report: Report) -> Value:
    """What a parameter, a list's value or a map's entry holds: text, an expression, a list, a map or a script."""
    for child in holder.children:
        local = child.name[1]
        if local == "list":
            return [
                value_of(item, activity, report) if item.children else _leaf(item, activity, report)
                for item in child.children
            ]
        if local == "map":
            entries = [entry for entry in child.children if entry.name[1] == "entry"]
            return {entry.get("key") or "": value_of(entry, activity, report) for entry in entries}
        if local == "script":
            return script_in(child, child.get("scriptFormat"), activity, report)
        report.error(activity.id, child.line, f"a parameter cannot hold {local}")
        return None
    return _leaf(holder, activity, report)


def _leaf(holder: Element, activity: Element, report: Report) -> Value:
    if holder.name[1] == "script":
        return script_in(holder, holder.get("scriptFormat"), activity, report)
    text = text_of(holder)
    if not text:
        return None
    if not has_expression(text):
        return text
    expression = Expression(text)
    if (fault := fault_in(expression)) is not None:
        report.error(activity.id, holder.line, f"the expression {shown(text)} cannot be run: {fault}")
    return expression


def script_in(script: Element | None, language: str | None, activity: Element, report: Report) -> Expression:
    """A script in a language that we run (cel, juel)."""
    line = activity.line if script is None else script.line
    known = (language or "").strip().lower()
    expression = Expression(text_of(script), known)
    if known not in ("cel", "juel"):
        report.error(
            activity.id, line, f"scripts in {shown(language or 'no language')} cannot be run; there are cel and juel"
        )
    elif not expression.text:
        report.error(activity.id, line, "the script is empty")
    elif (fault := fault_in(expression)) is not None:
        report.error(activity.id, line, f"the script {shown(expression.text)} cannot be run: {fault}")
    return expression


def shown(text: str) -> str:
    """A piece of the model in a message: on one line, and not too long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 100 else flat[:99] + "…"
