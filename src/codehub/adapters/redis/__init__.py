"""Redis: hints, and nothing that anybody needs to be there."""
