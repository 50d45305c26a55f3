"""A file to graphs: every executable process of it, or every reason why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from app.bpmn.checks import check
from app.bpmn.duties import read_duty
from app.bpmn.events import Roots, definitions_of, is_link, read_event, read_roots
from app.bpmn.markup import Element, Unreadable, parse
from app.bpmn.names import BPMN, CELERIAC, ELEMENTS, bpmn, extension, extensions, is_bpmn, is_name, is_true
from app.bpmn.options import Options
from app.bpmn.problems import Report
from app.bpmn.values import condition_of, is_runnable, parameters, script_in, shown, text_of, text_or_expression
from app.bpmn.work import cannot_be_run, read_work
from app.process.graph import Event, EventKind, Expression, Flow, Graph, Kind, Node, Script

IGNORED: Final = frozenset(
    {
        "laneSet", "dataObject", "dataObjectReference", "dataStoreReference", "dataInputAssociation",
        "dataOutputAssociation", "ioSpecification", "property", "textAnnotation", "group", "association", "artifact",
        "documentation", "extensionElements", "incoming", "outgoing", "auditing", "monitoring", "resourceRole",
        "performer", "humanPerformer", "potentialOwner", "supportedInterfaceRef", "correlationSubscription",
        "multiInstanceLoopCharacteristics", "standardLoopCharacteristics",
    }
)  # fmt: skip
"""What says nothing about where tokens go, or is read with the element around it."""
NOT_YET: Final = {
    "callActivity": "call activities", "adHocSubProcess": "ad-hoc subprocesses",
    "complexGateway": "complex gateways", "subChoreography": "choreographies", "callChoreography": "choreographies",
}  # fmt: skip
GATEWAYS: Final = {
    "exclusiveGateway": Kind.EXCLUSIVE, "parallelGateway": Kind.PARALLEL, "inclusiveGateway": Kind.INCLUSIVE,
    "eventBasedGateway": Kind.EVENT_GATEWAY,
}  # fmt: skip
WORKERS: Final = frozenset({"serviceTask", "sendTask", "businessRuleTask"})


@dataclass(frozen=True, slots=True)
class Model:
    """One executable process of a file."""

    graph: Graph
    version_tag: str | None = None
    history_time_to_live: str | None = None
    category: str | None = None
    """The target namespace of the file."""
    description: str | None = None
    lines: Mapping[str, int] = field(default_factory=dict)
    """The line of each element, for messages."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of reading a file. There are models also when there are errors: they are then for looking at only."""

    models: tuple[Model, ...]
    report: Report


def read(content: bytes, options: Options | None = None) -> Reading:
    """Read a BPMN file. Never raises for what is in it: the report says what is wrong."""
    report = Report()
    options = options or Options()
    stated = options.executable == "stated"
    try:
        definitions = parse(content)
    except Unreadable as fault:
        report.error(None, fault.line, str(fault))
        return Reading((), report)
    if definitions.name != bpmn("definitions"):
        report.error(None, definitions.line, "this is no BPMN 2.0 file: its root is not definitions")
        return Reading((), report)
    roots = read_roots(definitions)
    _check_ids(definitions, report)
    category = definitions.get("targetNamespace")
    models = []
    for process in (child for child in definitions.children if child.name == bpmn("process")):
        if is_true(process.get("isExecutable") or ("false" if stated else "true")):
            models.append(replace(_Reader(process, roots, options, report).model(), category=category))
        elif stated:
            what = 'the process is left out: nothing says isExecutable="true"'
            report.warning(process.id, process.line, what)
    if not models and not report.errors and not stated:
        report.error(None, definitions.line, "the file has no executable process")
    report.sort()
    return Reading(tuple(models), report)


def _check_ids(definitions: Element, report: Report) -> None:
    seen: dict[str, int] = {}
    for element in definitions.walk():
        if element.name[0] == BPMN and element.id is not None:
            if element.id in seen:
                report.error(element.id, element.line, f"the id is taken: line {seen[element.id]} has it, too")
            seen.setdefault(element.id, element.line)


class _Reader:
    """Reads one process."""

    def __init__(self, process: Element, roots: Roots, options: Options, report: Report) -> None:
        self._process = process
        self._roots = roots
        self._options = options
        self._report = report
        self._nodes: dict[str, Node] = {}
        self._flows: dict[str, Flow] = {}
        self._lines: dict[str, int] = {}
        self._links: dict[tuple[str, str], str] = {}
        self._handlers: dict[str, str] = {}
        self._strangers: dict[str, Node] = {}
        """Elements that are told as errors already, as nodes: what refers to them is not wrong as well."""

    def model(self) -> Model:
        process = self._process
        name = process.id or ""
        if not is_name(name):
            self._report.error(name[:255] or None, process.line, "a process has an id of 1 to 255 characters")
        self._lines[name] = process.line
        self._refuse_listeners(process)
        for element in process.walk():
            if is_bpmn(element, "association"):
                self._handlers[element.get("sourceRef") or ""] = element.get("targetRef") or ""
        self._read_scope(process, name)
        self._join_links()
        named = {end for flow in self._flows.values() for end in (flow.source, flow.target)}
        strangers = {node.id: node for node in self._strangers.values() if node.id in named}
        graph = Graph(
            name,
            self._nodes | strangers,
            self._flows,
            process.get("name"),
            parallel_compensation=is_true(process.attributes.get((CELERIAC, "parallelCompensation"))),
            counting_joins=is_true(process.attributes.get((CELERIAC, "countingJoins"))),
        )
        check(graph, self._lines, self._report)
        return Model(
            graph,
            extension(process, "versionTag"),
            extension(process, "historyTimeToLive"),
            description=text_of(process.child(bpmn("documentation"))) or None,
            lines=self._lines,
        )

    def _read_scope(self, scope: Element, name: str) -> None:
        for element in scope.children:
            local = element.name[1]
            if element.name[0] != BPMN or local in IGNORED or local.endswith("EventDefinition"):
                continue
            if local == "sequenceFlow":
                self._read_flow(element)
            elif local == "subProcess" and is_true(element.get("triggeredByEvent")):
                self._report.error(element.id, element.line, "event subprocesses are not there yet")
                self._read_scope(element, element.id or "")
            elif (reader := self._reader_of(element)) is not None:
                self._add(reader(element, name), element)
            else:
                what = f"{NOT_YET[local]} are not there yet" if local in NOT_YET else f"{local} is not known"
                self._report.error(element.id, element.line, what)
                self._strangers[element.id or ""] = self._node(element, Kind.PASS, name)

    def _reader_of(self, element: Element) -> Callable[[Element, str], Node] | None:
        local = element.name[1]
        if local in GATEWAYS:
            return self._gateway
        if local in WORKERS:
            return self._worker
        readers: Mapping[str, Callable[[Element, str], Node]] = {
            "startEvent": self._start,
            "endEvent": self._end,
            "intermediateCatchEvent": self._catch,
            "intermediateThrowEvent": self._throw,
            "boundaryEvent": self._boundary,
            "scriptTask": self._script,
            "receiveTask": self._receive,
            "userTask": self._user,
            "manualTask": self._pass,
            "task": self._pass,
            "subProcess": self._subprocess,
            "transaction": self._transaction,
        }
        return readers.get(local)

    def _add(self, node: Node, element: Element) -> None:
        if not is_name(node.id):
            what = "has no id" if not node.id else "has an id of more than 255 characters, or with spaces"
            self._report.error(node.id[:255] or None, element.line, f"{element.name[1]} {what}")
            return
        if node.id not in self._nodes:  # else it is told already
            self._lines[node.id] = element.line
            usual = element.name[1] == ELEMENTS[node.kind]
            self._nodes[node.id] = node if usual else replace(node, element=element.name[1])

    def _node(self, element: Element, kind: Kind, scope: str) -> Node:
        """What every node has."""
        self._refuse_listeners(element)
        self._refuse_counts(element)
        return Node(
            element.id or "",
            kind,
            scope,
            name=element.get("name"),
            default=element.get("default"),
            for_compensation=is_true(element.get("isForCompensation")),
            commit_before=is_true(extension(element, "asyncBefore")) or is_true(extension(element, "async")),
            commit_after=is_true(extension(element, "asyncAfter")),
        )

    def _refuse_counts(self, element: Element) -> None:
        """Attributes without which the element would mean something else."""
        if (element.get("eventGatewayType") or "Exclusive") == "Parallel":
            what = "event-based gateways that wait for all of their events are not there yet"
            self._report.error(element.id, element.line, what)
        if element.name[1] == "eventBasedGateway" and is_true(element.get("instantiate")):
            self._report.error(element.id, element.line, "gateways that begin an instance are not there yet")
        for name in ("startQuantity", "completionQuantity"):
            if (element.get(name) or "1").strip() != "1":
                self._report.error(element.id, element.line, f"activities that count tokens ({name}) are not there yet")

    def _activity(self, element: Element, kind: Kind, scope: str) -> Node:
        for loop in ("multiInstanceLoopCharacteristics", "standardLoopCharacteristics"):
            if element.child(bpmn(loop)) is not None:
                self._report.error(element.id, element.line, "multi-instance and loop activities are not there yet")
        return self._mapped(self._node(element, kind, scope), element)

    def _mapped(self, node: Node, element: Element) -> Node:
        """A node with its input and output parameters."""
        return replace(
            node,
            inputs=parameters(element, "inputParameter", self._options, self._report),
            outputs=parameters(element, "outputParameter", self._options, self._report),
        )

    # Events

    def _event(self, element: Element, kind: Kind, scope: str) -> Node:
        node = self._mapped(self._node(element, kind, scope), element)
        return replace(node, event=read_event(element, self._roots, self._report))

    def _start(self, element: Element, scope: str) -> Node:
        node = self._event(element, Kind.START, scope)
        if (starter := extension(element, "initiator")) is not None:
            self._report.warning(element.id, element.line, f"the variable {shown(starter)} (initiator) is not set")
        texts = (node.event.name, node.event.when) if node.event else ()
        if any(isinstance(text, Expression) for text in texts):
            self._report.error(
                element.id, element.line, "a start event has no variables that its event could depend on"
            )
        return node

    def _end(self, element: Element, scope: str) -> Node:
        node = self._thrower(element, Kind.END, scope)
        if node.outputs:
            self._report.error(element.id, element.line, "an end event has no output parameters")
        return node

    def _throw(self, element: Element, scope: str) -> Node:
        if is_link(element):
            event = read_event(element, self._roots, self._report)
            # The name stands here until all catch events are known.
            return replace(self._node(element, Kind.LINK, scope), link=str(event.name or ""))
        return self._thrower(element, Kind.THROW, scope)

    def _thrower(self, element: Element, kind: Kind, scope: str) -> Node:
        node = self._event(element, kind, scope)
        if node.event is None or node.event.kind is not EventKind.MESSAGE:
            return node
        definition = element.child(bpmn("messageEventDefinition"))
        work = read_work(definition or element, element, self._options, self._report, required=False)
        if work is None:
            self._report.warning(element.id, element.line, "a message event without an implementation sends nothing")
        elif isinstance(work, Expression):
            self._report.warning(element.id, element.line, "an expression sends nothing, and is not run")
        else:
            return replace(node, work=work)
        return node

    def _catch(self, element: Element, scope: str) -> Node:
        node = self._event(element, Kind.CATCH, scope)
        event = node.event or Event(EventKind.NONE)
        if is_link(element):
            name = str(event.name or "")
            if (scope, name) in self._links:
                self._report.error(element.id, element.line, f"there are two catch events for the link {name}")
            self._links[scope, name] = node.id
            return replace(node, event=Event(EventKind.NONE))
        told = event.kind is EventKind.NONE and bool(definitions_of(element))
        if event.kind not in (EventKind.TIMER, EventKind.MESSAGE, EventKind.SIGNAL) and not told:
            self._report.error(
                element.id, element.line, "a catch event waits for a timer, a message, a signal or a link"
            )
        return node

    def _boundary(self, element: Element, scope: str) -> Node:
        node = replace(
            self._event(element, Kind.BOUNDARY, scope),
            attached_to=element.get("attachedToRef") or "",
            interrupting=(element.get("cancelActivity") or "true").strip().lower() != "false",
        )
        if node.catches(EventKind.COMPENSATION):
            return replace(node, handler=self._handlers.get(node.id))
        if not definitions_of(element):
            self._report.error(element.id, element.line, "a boundary event has a definition")
        return node

    # Activities

    def _worker(self, element: Element, scope: str) -> Node:
        node = self._activity(element, Kind.TASK, scope)
        work = read_work(element, element, self._options, self._report, required=True)
        if isinstance(work, Expression):
            return replace(node, kind=Kind.SCRIPT, script=Script(work, extension(element, "resultVariable")))
        return replace(node, kind=Kind.PASS) if work is None else replace(node, work=work)

    def _script(self, element: Element, scope: str) -> Node:
        node = self._activity(element, Kind.SCRIPT, scope)
        language = element.get("scriptFormat")
        if self._options.unrunnable == "ignore" and not is_runnable(language):
            self._report.warning(element.id, element.line, f"the script in {language or 'no language'} is ignored")
            return replace(node, kind=Kind.PASS)
        expression = script_in(element.child(bpmn("script")), language, element, self._report)
        return replace(node, script=Script(expression, extension(element, "resultVariable")))

    def _receive(self, element: Element, scope: str) -> Node:
        node = self._activity(element, Kind.RECEIVE, scope)
        target = element.get("messageRef")
        if target is None:
            return node
        name = self._roots.messages.get(target, self._roots.messages.get(target.rpartition(":")[2]))
        if name is None:
            self._report.error(element.id, element.line, f"messageRef names no message with a name: {target}")
            return node
        return replace(node, event=Event(EventKind.MESSAGE, name=text_or_expression(name, self._report, element)))

    def _user(self, element: Element, scope: str) -> Node:
        return replace(self._activity(element, Kind.USER, scope), duty=read_duty(element, self._report))

    def _pass(self, element: Element, scope: str) -> Node:
        return self._activity(element, Kind.PASS, scope)

    def _subprocess(self, element: Element, scope: str) -> Node:
        node = self._activity(element, Kind.SUBPROCESS, scope)
        self._read_scope(element, node.id)
        return node

    def _transaction(self, element: Element, scope: str) -> Node:
        self._report.error(element.id, element.line, "transactions are not there yet")
        return self._subprocess(element, scope)

    def _gateway(self, element: Element, scope: str) -> Node:
        if extensions(element, "inputOutput"):
            self._report.error(element.id, element.line, "a gateway has no input or output parameters")
        return self._node(element, GATEWAYS[element.name[1]], scope)

    def _read_flow(self, element: Element) -> None:
        source, target = element.get("sourceRef") or "", element.get("targetRef") or ""
        name = element.id or f"{source}->{target}#{len(self._flows)}"
        self._refuse_listeners(element)
        self._lines[name] = element.line
        self._flows[name] = Flow(name, source, target, condition_of(element, self._report))

    def _refuse_listeners(self, element: Element) -> None:
        for kind, what in (("executionListener", "an execution listener"), ("taskListener", "a task listener")):
            for listener in extensions(element, kind):
                cannot_be_run(element, listener, what, self._options, self._report)

    def _join_links(self) -> None:
        for node in [node for node in self._nodes.values() if node.kind is Kind.LINK]:
            catch = self._links.get((node.scope, node.link or ""))
            if catch is None:
                self._report.error(node.id, self._lines[node.id], f"no catch event has the link {node.link}")
            self._nodes[node.id] = replace(node, link=catch)
