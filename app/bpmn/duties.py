"""Whose work a user task is: its assignee, its candidates, when it is due, its form."""

from __future__ import annotations

from app.bpmn.markup import Element
from app.bpmn.names import bpmn, extension
from app.bpmn.problems import Report
from app.bpmn.values import shown, text_of
from app.expressions.evaluator import fault_in
from app.expressions.syntax import has_expression
from app.process.graph import Duty, Expression, Text


def read_duty(task: Element, report: Report) -> Duty | None:
    """None when the model says nothing of it. What cannot be evaluated is left out, and told."""

    def given(text: str | None, what: str) -> Text:
        if not text or not has_expression(text):
            return text or None
        expression = Expression(text)
        if (fault := fault_in(expression)) is None:
            return expression
        report.warning(task.id, task.line, f"{what} {shown(text)} is left out, since it cannot be run: {fault}")
        return None

    name = task.get("name")
    duty = Duty(
        assignee=given(extension(task, "assignee") or _formal(task, "humanPerformer"), "the assignee"),
        candidate_users=given(extension(task, "candidateUsers"), "candidateUsers"),
        candidate_groups=given(extension(task, "candidateGroups"), "candidateGroups"),
        due=given(extension(task, "dueDate"), "the due date"),
        follow_up=given(extension(task, "followUpDate"), "the follow-up date"),
        priority=given(extension(task, "priority"), "the priority"),
        name=given(name, "the name") if name and has_expression(name) else None,
        description=given(text_of(task.child(bpmn("documentation"))), "the description"),
        form_key=given(extension(task, "formKey"), "the form key"),
    )
    return None if duty == Duty() else duty


def _formal(task: Element, local: str) -> str | None:
    """The expression in a `humanPerformer`: the standard's way to say who."""
    holder = task.child(bpmn(local))
    assignment = None if holder is None else holder.child(bpmn("resourceAssignmentExpression"))
    return None if assignment is None else text_of(assignment.child(bpmn("formalExpression"))) or None
