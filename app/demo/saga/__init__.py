"""`celeriac demo saga`: orders that are shipped, or undone in order, while workers and servers die."""
