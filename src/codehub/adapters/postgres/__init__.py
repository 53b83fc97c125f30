"""PostgreSQL: the schema, its migrations, and the store and hints ports on it."""
