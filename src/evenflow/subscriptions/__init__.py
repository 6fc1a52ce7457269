"""Content-based publish/subscribe: the language, covering, matching and load estimation."""
