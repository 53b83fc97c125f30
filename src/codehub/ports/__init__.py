"""What the engine and the service layer need of the world, as Protocols. No implementation lives here."""
