"""The ``evenflow`` command, one small module per subcommand."""
