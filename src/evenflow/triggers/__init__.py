"""Triggers: an event-driven cluster whose invoked triggers are balanced in groups, after Sun et al., *DLBer*."""
