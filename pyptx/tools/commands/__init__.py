"""The subcommands of `pyptx`, one module each, imported when used."""
