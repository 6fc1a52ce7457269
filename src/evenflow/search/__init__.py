"""The search behind ``least_moves``: who should own what, as even as possible for as little moved load as possible."""
