"""Expressions of models: JUEL as Camunda 7 has it, and CEL for scripts. Nothing here runs code, and all of it ends."""
