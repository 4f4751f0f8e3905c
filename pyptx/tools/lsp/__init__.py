"""The language server for PTX: `pyptx lsp`."""
