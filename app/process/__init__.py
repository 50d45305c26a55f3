"""The token executor: pure functions over values. It knows no clock, no database, and nothing else of ours.

    advance(graph, state, facts, evaluate) -> Decision

A graph says where tokens may go, a state where they are, facts what has happened. The decision is what follows: the
state afterwards, and what the world must do (make tasks, open waits, raise incidents). app/engine.py is the only place
that joins this to Postgres.
"""
