"""Pages for people: the live page, metrics and standalone reports."""
