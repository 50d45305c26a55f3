"""Durable tasks: what they are, and how one attempt at one is made, whoever carries it."""
