"""Who does the work of a service, send or business rule task, or of a message event: a topic, or an expression."""

from __future__ import annotations

import re
from typing import Final

from app.bpmn.markup import Element
from app.bpmn.names import camunda_children, extension, extensions, is_name
from app.bpmn.options import Options
from app.bpmn.problems import Report
from app.bpmn.values import expression_in, shown, text_of, text_or_expression
from app.expressions.evaluator import fault_in
from app.expressions.syntax import has_expression
from app.process.graph import Expression, Work
from app.process.timing import DURATION

RETRY_PROPERTY: Final = "retries"


def read_work(
    holder: Element, activity: Element, options: Options, report: Report, *, required: bool
) -> Work | Expression | None:
    """What `holder` (the activity itself, or its message definition) says about who works; None: nobody, or told."""
    for error in extensions(activity, "errorEventDefinition"):
        cannot_be_run(activity, error, "an errorEventDefinition of a task", options, report)
    kind, topic = extension(holder, "type"), extension(holder, "topic")
    if kind == "external":
        if not topic:
            report.error(activity.id, holder.line, "an external task has a topic (camunda:topic)")
            return None
        if not has_expression(topic) and not is_name(topic):
            report.error(activity.id, holder.line, "a topic has 1 to 255 printable characters and no space around them")
        return _work(text_or_expression(topic, report, activity), holder, activity, report)
    if kind is not None:
        report.error(activity.id, holder.line, f"tasks of type {shown(kind)} cannot be run")
        return None
    if (expression := extension(holder, "expression")) is not None and fault_in(Expression(expression)) is None:
        return expression_in(expression, report, activity)
    return _delegate(holder, activity, options, report, required=required)


def _delegate(holder: Element, activity: Element, options: Options, report: Report, *, required: bool) -> Work | None:
    named = _java_name(holder)
    if named is None:
        if extensions(holder, "connector"):
            report.error(activity.id, holder.line, "connectors cannot be run")
        elif required:
            report.error(activity.id, holder.line, f"{activity.name[1]} has no implementation (camunda:type and topic)")
        return None
    attribute, topic = named
    if options.delegates != "topics":
        report.error(
            activity.id,
            holder.line,
            f"Java code cannot be run ({attribute}); delegates=topics makes an external task of it",
        )
        return None
    told = f"{attribute} became an external task with the topic {topic}"
    if (result := extension(holder, "resultVariable")) is not None:
        told += f"; its worker is to complete it with the variable {shown(result)}"
    report.warning(activity.id, holder.line, told)
    return _work(topic, holder, activity, report)


def _java_name(holder: Element) -> tuple[str, str] | None:
    """The attribute that names code, and a topic made of its value: a class, a bean, a bean's method, or a decision."""
    for attribute in ("class", "delegateExpression", "expression", "decisionRef"):
        value = extension(holder, attribute)
        if value:
            plain = re.sub(r"^[$#]\{(.*)\}$", r"\1", value.strip(), flags=re.DOTALL)
            name = re.sub(r"\(.*$", "", plain, flags=re.DOTALL).strip()
            return attribute, re.sub(r"[^\w.$-]+", "_", name)[:255] or attribute
    return None


def _work(topic: Expression | str, holder: Element, activity: Element, report: Report) -> Work:
    properties = _properties(holder, activity, report)
    process = _process_of(activity)
    priority = extension(holder, "taskPriority") or (extension(process, "taskPriority") if process else None)
    retry = extension(activity, "failedJobRetryTimeCycle") or _retry_cycle(activity) or properties.get(RETRY_PROPERTY)
    if retry is not None and not has_expression(retry) and not is_retry_cycle(retry):
        report.warning(activity.id, activity.line, f"the retry cycle {shown(retry)} is not known, and has no effect")
    return Work(
        topic,
        priority=None if priority is None else _priority(priority, activity, report),
        retry=None if retry is None else text_or_expression(retry, report, activity),
        properties=properties,
    )


def is_retry_cycle(text: str) -> bool:
    """`5`, `R5/PT10M`, or the pauses `PT1M,PT5M,PT10M`."""
    if re.fullmatch(r"[0-9]{1,6}", text.strip()):
        return True
    count, _, rest = text.strip().partition("/")
    pauses = [rest] if re.fullmatch(r"R[0-9]{1,6}", count) else text.split(",")
    return all(DURATION.fullmatch(pause.strip()) for pause in pauses)


def _properties(holder: Element, activity: Element, report: Report) -> dict[str, str]:
    """The extension properties; and the fields of a delegate that became a topic, where they are constants."""
    properties = {
        child.get("name") or "": child.get("value") or ""
        for group in extensions(activity, "properties")
        for child in group.children
        if child.name[1] == "property"
    }
    for field in (*extensions(activity, "field"), *(extensions(holder, "field") if holder is not activity else ())):
        text = field.get("stringValue") or "".join(text_of(child) for child in camunda_children(field, "string"))
        name = field.get("name") or ""
        if text and not has_expression(text):
            properties.setdefault(name, text)
        else:
            report.warning(activity.id, field.line, f"the field {shown(name)} is no constant, and is left out")
    return properties


def _priority(text: str, activity: Element, report: Report) -> Expression | int | None:
    if has_expression(text):
        return expression_in(text, report, activity)
    if not re.fullmatch(r"\s*-?\d{1,9}\s*", text, re.ASCII):
        report.error(activity.id, activity.line, "taskPriority is a whole number or an expression")
        return None
    return int(text)


def cannot_be_run(element: Element, part: Element, what: str, options: Options, report: Report) -> None:
    """A part of the model that is not run: an error, or a warning when the deployment says that such is ignored."""
    if options.unrunnable == "ignore":
        report.warning(element.id, part.line, f"{what} is ignored")
    else:
        report.error(element.id, part.line, f"{what} cannot be run")


def _retry_cycle(activity: Element) -> str | None:
    found = extensions(activity, "failedJobRetryTimeCycle")
    return text_of(found[0]) or None if found else None


def _process_of(element: Element) -> Element | None:
    at: Element | None = element
    while at is not None and at.name[1] != "process":
        at = at.parent
    return at
