"""Pages for people: standalone reports. The drawing library is imported here and nowhere else."""
