"""Content-based publish/subscribe: the language, covering, matching, and the balancing of subscriptions."""
