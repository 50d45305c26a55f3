"""Two expenses: one is approved after ten days, the other never. Thirty days take a second here."""

import psycopg
from celeriac.testing import DatabaseServer, Runner, copied
from expenses import DECIDED, TABLE, Expense, approve


def main() -> None:
    with DatabaseServer() as server, copied(server.url) as url, Runner(url, [approve]) as runner:
        with psycopg.connect(url) as connection:
            connection.execute(TABLE)
            for number, amount in (("A-1", 90), ("A-2", 4_000)):
                connection.execute("insert into expense values (%s, %s, 'open')", [number, amount])
                approve.enqueue(connection, Expense(number, amount, approver="Ada"))
        say(runner, "two expenses are handed in")
        runner.run()
        runner.clock.advance(days=10)
        say(runner, "Ada approves A-1")
        runner.signal(DECIDED, {"approved": True, "by": "Ada"}, key="A-1")
        runner.run()
        for days in (13, 7):
            runner.clock.advance(days=days)
            runner.run()
        with psycopg.connect(url) as connection:
            for number, state in connection.execute("select number, state from expense order by number"):
                say(runner, f"{number} is {state}")


def say(runner: Runner, text: str) -> None:
    print(f"{runner.clock.now():%Y-%m-%d}   {text}", flush=True)


if __name__ == "__main__":
    main()
