"""Measurements, run by hand (`make bench`) and never by a test's verdict; README.md says how and how to read them."""
