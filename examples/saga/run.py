"""Two travellers: one gets all three, the other gets none, since there is no car."""

import os
import tempfile

from celeriac.testing import DatabaseServer, Runner, copied
from offices import booked, folder
from trip import Trip, book


def main() -> None:
    with DatabaseServer() as server, copied(server.url) as url, Runner(url, [book]) as runner:
        (folder("cars") / "none left in Lyon").touch()
        for trip in (Trip("Ida", "Bergen"), Trip("Jo", "Lyon")):
            task_id = runner.enqueue(book, trip)
            runner.run(skip=True)
            run = runner.task(task_id)
            print(f"\n{trip.traveller} to {trip.city}: {run.state} {run.error or run.result}")
            for step in runner.steps(task_id):
                print(f"  {'undone' if step.branch == 'undo' else 'done':8}{step.name}")
            print(f"  booked now: {', '.join(booked(trip.traveller)) or 'nothing'}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="celeriac-offices-") as name:
        os.environ["OFFICES"] = name
        main()
