"""A federation of publish/subscribe brokers that spreads its subscribers over the brokers by itself (Cheung 2006)."""
