"""JUEL as models use it: values, coercions, exact numbers; and what is refused, when it is read or when it is run."""

import sys
from decimal import Decimal
from typing import Any

import pytest

from app.expressions.evaluator import evaluator, fault_in
from app.expressions.juel import Surroundings, run
from app.expressions.syntax import SyntaxFault
from app.process.board import ModelError
from app.process.graph import Expression

KNOWN = Surroundings(business_key="B-1", instance_id="i-1", now="2026-11-29T12:00:00Z")


def value(text: str, **variables: Any) -> Any:
    return run(text, variables, KNOWN)


@pytest.mark.parametrize(
    "text, variables, expected",
    [
        ("${amount > 10}", {"amount": 11}, True),
        ("#{amount gt 10 and not late}", {"amount": 11, "late": False}, True),
        ("${amount >= 10 || x}", {"amount": 9, "x": True}, True),
        ("${a == 'x' && b != \"y\"}", {"a": "x", "b": "z"}, True),
        ("${'5' == 5}", {}, True),
        ("${x eq null}", {"x": None}, True),
        ("${x < 3}", {"x": None}, False),
        ("${null + 1}", {}, 1),
        ("${empty x}", {"x": []}, True),
        ("${not empty x ? 1 : 2}", {"x": "a"}, 1),
        ("${a.b['c'][1]}", {"a": {"b": {"c": [1, 2]}}}, 2),
        ("${order['a b']}", {"order": {"a b": 3}}, 3),
        ("${order[key]}", {"order": {"k": 3}, "key": "k"}, 3),
        ("${(1 + 2) * 3 - 4 % 3}", {}, 8),
        ("${7 div 2}", {}, Decimal("3.5")),
        ("${-7 mod 3}", {}, -1),
        ("${-x}", {"x": 2}, -2),
        ("${!flag}", {"flag": "false"}, True),
        ("${execution.getVariable('x') + 1}", {"x": 1}, 2),
        ("${execution.getVariable('missing') == null}", {}, True),
        ("${execution.hasVariable('x')}", {}, False),
        ("${execution.processBusinessKey}", {}, "B-1"),
        ("${execution.getProcessInstanceId()}", {}, "i-1"),
        ("${now()}", {}, "2026-11-29T12:00:00Z"),
        ("${'it''s'}", {}, None),
        (r"${'it\'s }'}", {}, "it's }"),
        ("PT${hours}H", {"hours": 2}, "PT2H"),
        ("${a}-${b}", {"a": "x", "b": None}, "x-"),
        ("plain", {}, "plain"),
        ("\n ${ x }", {"x": True}, "\n true"),
        ("${true ? 'a' : missing}", {}, "a"),
        ("${false && missing}", {}, False),
    ],
)
def test_an_expression_has_the_value_that_juel_gives_it(text: str, variables: dict[str, Any], expected: Any) -> None:
    if text == "${'it''s'}":
        with pytest.raises(SyntaxFault):
            value(text, **variables)
        return
    assert value(text, **variables) == expected


def test_numbers_are_exact() -> None:
    largest, next_one = 2**63 - 1, 2**63
    assert value("${a == b}", a=largest, b=next_one) is False
    assert value("${a + 1 == b}", a=largest, b=next_one) is True
    assert value("${a}", a=next_one) == next_one
    assert value("${a + 0.1 == 0.3}", a=Decimal("0.2")) is True
    assert value("${a == 0.1}", a=0.1) is True
    assert value("${price * 2}", price=Decimal("100000.10")) == Decimal("200000.20")
    assert value("x${price}", price=Decimal("100000.10")) == "x100000.10"


@pytest.mark.parametrize(
    "text",
    [
        "${x.size()}",
        "${x.getClass().forName('java.lang.Runtime')}",
        "${''.isEmpty()}",
        "${__import__('os')}",
        "${execution.setVariable('a', 1)}",
        "${bean.method()}",
        "${[c for c in x]}",
        "${9**9**9}",
        "${(lambda f: f(f))(1)}",
        "${x = 1}",
        "${x;y}",
        "${",
        "${}",
        "${x +}",
        "${a b}",
        "${1 ? 2}",
        "${" + "(" * 60 + "1" + ")" * 60 + "}",
        "${" + "!" * 60 + "x}",
        "${" + "1+" * 3000 + "1}",
        "${1e999999999}",
        "${x instanceof y}",
    ],
)
def test_what_is_no_expression_or_would_run_code_is_refused_when_it_is_read(text: str) -> None:
    assert fault_in(Expression(text)) is not None
    with pytest.raises(SyntaxFault):
        value(text, x=1)


@pytest.mark.parametrize(
    "text, variables",
    [
        ("${missing > 1}", {}),
        ("${a.b}", {"a": {}}),
        ("${a.__class__}", {"a": {}}),
        ("${a.b}", {"a": "text"}),
        ("${a[9]}", {"a": [1]}),
        ("${a[-1]}", {"a": [1]}),
        ("${a + 1}", {"a": "secret-text"}),
        ("${a < b}", {"a": [1], "b": [2]}),
        ("${1 / 0}", {}),
        ("${1 % 0}", {}),
        ("${a ? 1 : 2}", {"a": "secret-text"}),
        ("x${a}", {"a": {"b": 1}}),
        ("${a * a * a * a}", {"a": 10**900}),
        ("${a * b}", {"a": 1e300, "b": 1e300}),
    ],
)
def test_what_has_no_value_is_an_error_of_the_model_that_shows_the_expression_and_no_value(
    text: str, variables: dict[str, Any]
) -> None:
    with pytest.raises(ModelError) as caught:
        evaluator(KNOWN)(Expression(text), variables)
    assert text in str(caught.value)
    assert "secret-text" not in str(caught.value)


def test_values_are_never_evaluated() -> None:
    assert value("${x}", x="${1 + 1}") == "${1 + 1}"
    assert value("a ${x}", x="#{y}") == "a #{y}"


def test_cel_runs_scripts_and_rounds_nothing_silently() -> None:
    evaluate = evaluator(KNOWN)
    assert evaluate(
        Expression("order.items.map(i, i.price * i.count)", "cel"), {"order": {"items": [{"price": 2, "count": 3}]}}
    ) == [6]
    assert evaluate(Expression("{'total': a + b}", "cel"), {"a": 1, "b": 2, "unused": 2**70}) == {"total": 3}
    for text, variables in (("a + 1", {"a": 2**63}), ("missing", {}), ("a.b", {"a": {}}), ("a + 'x'", {"a": 1})):
        with pytest.raises(ModelError):
            evaluate(Expression(text, "cel"), variables)
    assert fault_in(Expression("a +", "cel"))
    assert fault_in(Expression("x", "groovy"))
    for three in ("[1].map(a, [1].map(b, [1].map(c, c)))", "[1].map (a, [1] . map(b, [1].//\nmap(c, c)))"):
        assert fault_in(Expression(three, "cel"))


MANY, LONG = list(range(3000)), "x" * 1_000_000


@pytest.mark.parametrize(
    "text",
    [
        "l.map(x, l)", "l.map(x, l.filter(y, y == x))", "l.map (x, x in l)", "l.map(x, s)", "l.map(x, s + s)",
        "[l].map(x, x.map(y, x))", "'.map(' == s || l.exists(x, x in l)", "l.map(x, [l].map(l, l))",
        "+".join(["s"] * 100), "+".join(["l"] * 500), "[" + "0," * 900 + "0].map(x, [" + "0," * 900 + "0])",
    ],
)  # fmt: skip
def test_a_script_that_would_be_too_much_work_is_not_begun(text: str) -> None:
    """Case B69: it would take hours, or more memory than there is."""
    with pytest.raises(ModelError, match="so much"):
        evaluator(KNOWN)(Expression(text, "cel"), {"l": MANY, "s": LONG})


@pytest.mark.parametrize(
    "text",
    [
        "items.filter(i, i.price > limit).map(i, i.name + '-' + i.kind)", "items.map(i, i.price * i.count + tax)",
        "items.exists(i, i.name == name && i.price in [1, 2, 3])", "size(items) + size(name)", "name + name",
    ],
)  # fmt: skip
def test_scripts_on_a_thousand_things_run(text: str) -> None:
    items = [{"name": f"thing {n}", "kind": "k", "price": n, "count": 2} for n in range(1000)]
    evaluator(KNOWN)(Expression(text, "cel"), {"items": items, "limit": 5, "tax": 3, "name": "thing 7"})


def test_scripts_of_one_advance_are_bounded_together() -> None:
    evaluate = evaluator(KNOWN)

    def again(times: int) -> None:
        for _ in range(times):
            evaluate(Expression("size(l) + size(l)", "cel"), {"l": MANY * 5})

    again(100)
    with pytest.raises(ModelError, match="so much"):
        again(1000)


def test_a_text_that_becomes_too_long_is_not_put_together() -> None:
    with pytest.raises(ModelError, match="too long"):
        evaluator(KNOWN)(Expression("${s}" * 1000), {"s": LONG})


@pytest.mark.parametrize(
    "text, expected",
    [
        ("1" + " + 1" * 1000, 1001),
        ("x" + " && x" * 800, True),
        ("!x" + " || !x" * 600, False),
        ("0 < 1" + " == true" * 500, True),
    ],
)
def test_a_long_chain_needs_no_stack(text: str, expected: Any) -> None:
    assert value("${" + text + "}", x=True) == expected


def test_a_chain_asks_no_further_than_it_must() -> None:
    assert value("${true || missing || missing}") is True
    assert value("${false && missing && missing}") is False
    assert value("${false && missing || true}") is True


@pytest.mark.parametrize("text", ["(" * 60 + "1" + ")" * 60, "!" * 60 + "x", ("(" + "!" * 10) * 6 + "x" + ")" * 6])
def test_nesting_counts_brackets_and_signs_together(text: str) -> None:
    assert "nested over 50 levels" in str(fault_in(Expression("${" + text + "}")))


def test_the_deepest_expression_that_is_read_can_be_run_from_deep_down() -> None:
    text = "${" + "false || true && 1 == 1 * (" * 48 + "1" + ")" * 48 + "}"
    assert fault_in(Expression(text)) is None

    def from_below(depth: int) -> Any:
        return from_below(depth - 1) if depth else evaluator(KNOWN)(Expression(text), {})

    with pytest.raises(ModelError, match="nested too deep"):
        from_below(sys.getrecursionlimit() - 200)
    with pytest.raises(ModelError, match="is no"):
        from_below(0)
