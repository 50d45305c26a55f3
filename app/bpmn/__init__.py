"""BPMN 2.0 XML to a graph, at deploy time: read, checked, and every problem told at once with its element and line."""
